# SPDX-License-Identifier: Apache-2.0
"""Small folders with real tokenizers, made on the spot."""

import json
import pathlib

import tokenizers
import transformers

WORDS = ["What is 1 plus 2? It is 3.", "user assistant system think", "Tell me more. Why is the sky blue?"] * 5
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHATML = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
          "'<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
MARKED = ("{% for message in messages %}{% if message['role'] == 'assistant' %}<|im_start|>assistant\n"
          "{% generation %}{{ message['content'] }}<|im_end|>{% endgeneration %}{{ '\n' }}{% else %}"
          "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endif %}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")
# Renders the last assistant turn alone with a block of thoughts, as Qwen3's template does.
THINKING = ("{% for message in messages %}{% if message['role'] == 'assistant' and loop.last %}"
            "{{ '<|im_start|>assistant\n<think>\n\n</think>\n\n' + message['content'] + '<|im_end|>\n' }}{% else %}"
            "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>\n' }}{% endif %}"
            "{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def make_tokenizer(template=CHATML):
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=320, special_tokens=SPECIAL, show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    inner.train_from_iterator(WORDS, trainer)
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|im_end|>",
                                                pad_token="<|endoftext|>")
    made.chat_template = template
    return made


def make_folder(folder, template=CHATML, vocabulary=320):
    folder = pathlib.Path(folder)
    make_tokenizer(template).save_pretrained(folder)
    (folder / "config.json").write_text(json.dumps({"model_type": "qwen2", "vocab_size": vocabulary}))
    return folder


def chat(*contents, system=None):
    roles = ["user", "assistant"] * len(contents)
    lead = [{"role": "system", "content": system}] if system else []
    return lead + [{"role": role, "content": content} for role, content in zip(roles, contents)]


def write_lines(path, records):
    path = pathlib.Path(path)
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(path)
