#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes chat.jsonl beside it, and the tokenizer and the configuration in model/.

usage: examples/chat/make_chat.py      (with a Python that has transformers)

The conversations are made from what the repository says of itself: GLOSSARY.md, tables of rooms and tasks, and
questions.md. The tokenizer is trained on them. The same pages give the same files."""

import json
import pathlib
import re

import tokenizers
import transformers

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
VOCABULARY, POSITIONS = 1024, 512
SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
CHATML = ("{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + "
          "'<|im_end|>\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def table_rows(page, *header):
    """Returns the rows of the tables that start with these headings, without links."""
    rows, inside = [], False
    for line in (ROOT / page).read_text(encoding="utf-8").splitlines():
        cells = [re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", cell.strip()) for cell in line.strip("|").split(" |")]
        if not line.startswith("|"):
            inside = False
        elif tuple(cells[:len(header)]) == header:
            inside = True
        elif inside and not line.startswith("|---"):
            rows.append(cells)
    assert rows, f"{page} has no table {header}"
    return rows


def chat(*turns):
    roles = ["user", "assistant"] * len(turns)
    return {"messages": [{"role": role, "content": turn} for role, turn in zip(roles, turns)]}


def sentence(text):
    return f"{text[0].upper()}{text[1:]}."


def of_glossary():
    """Yields each term asked for its meaning, each meaning for its term, and terms in pairs."""
    terms = [row[:2] for row in table_rows("GLOSSARY.md", "term", "meaning")]
    for term, meaning in terms:
        yield chat(f"What does \"{term}\" mean?", meaning)
        yield chat(f"Which word means this? {meaning}", f"{term}.")
    for (first, meaning), (second, other) in zip(terms[::2], terms[1::2]):
        yield chat(f"Explain {first}.", meaning, f"And {second}?", other)


def of_tables():
    for task, room in table_rows("CONTRIBUTING.md", "task", "room"):
        yield chat(f"I want to {task}. Where does that go?", f"Into {room}.")
    for folder, holds, *_ in table_rows("README.md", "folder", "what it holds"):
        yield chat(f"What is in the folder {folder}?", sentence(holds))
    for room, purpose in table_rows("executor/README.md", "room", "purpose"):
        yield chat(f"What is the purpose of {room.strip('`')} in the executor?", sentence(purpose))
    for rooms, answer in table_rows("sim/README.md", "room", "what it answers"):
        yield chat(f"Which room of the simulator says {answer}?", sentence(rooms))


def of_questions():
    """Yields a conversation of every section of questions.md; a heading below it is the next question."""
    for section in re.split(r"^## ", (HERE / "questions.md").read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]:
        turns = [turn.strip().split("\n", 1) for turn in re.split(r"^### ", section, flags=re.MULTILINE)]
        yield chat(*(" ".join(text.split()) for turn in turns for text in turn))


def trained_tokenizer(records):
    inner = tokenizers.Tokenizer(tokenizers.models.BPE())
    inner.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = tokenizers.decoders.ByteLevel()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=VOCABULARY, special_tokens=SPECIAL, show_progress=False,
                                             initial_alphabet=tokenizers.pre_tokenizers.ByteLevel.alphabet())
    inner.train_from_iterator((message["content"] for record in records for message in record["messages"]), trainer)
    assert inner.get_vocab_size() == VOCABULARY
    made = transformers.PreTrainedTokenizerFast(tokenizer_object=inner, eos_token="<|im_end|>",
                                                pad_token="<|endoftext|>", model_max_length=POSITIONS,
                                                model_input_names=["input_ids", "attention_mask"])  # as Qwen2 takes
    made.chat_template = CHATML
    return made


def write_model(folder, tokenizer):
    tokenizer.save_pretrained(folder, save_jinja_files=False)
    tokenizer.backend_tokenizer.save(str(folder / "tokenizer.json"), pretty=False)
    (folder / "special_tokens_map.json").unlink()  # tokenizer_config.json says it, too
    config = {
        "architectures": ["Qwen2ForCausalLM"], "model_type": "qwen2", "vocab_size": VOCABULARY, "hidden_size": 192,
        "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 6, "num_key_value_heads": 2,
        "max_position_embeddings": POSITIONS, "rope_theta": 10000.0, "rms_norm_eps": 1e-06, "hidden_act": "silu",
        "tie_word_embeddings": True, "initializer_range": 0.02, "eos_token_id": tokenizer.eos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2) + "\n", encoding="utf-8")


def main():
    records = [*of_glossary(), *of_tables(), *of_questions()]
    lines = (json.dumps(record, ensure_ascii=False) + "\n" for record in records)
    (HERE / "chat.jsonl").write_text("".join(lines), encoding="utf-8")
    write_model(HERE / "model", trained_tokenizer(records))
    print(f"{len(records)} records")


if __name__ == "__main__":
    main()
