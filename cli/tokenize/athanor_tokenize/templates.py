# SPDX-License-Identifier: Apache-2.0
"""Renders conversations with a chat template, and finds the characters that the assistant wrote.

A template with `{% generation %}` marks says itself which characters those are. For any other, they follow from
prefixes: the conversation up to a turn, with the prompt for the assistant, must be a prefix of the whole, and so must the
conversation with that turn. What lies between is the turn. A template for which this does not hold is refused, since a
mask for it would be a guess.
"""

import os
import re

from athanor_common.errors import InputError

MARKS = re.compile(r"\{%-?\s*generation\s*-?%\}")


class Template:
    def __init__(self, tokenizer, text=None):
        self.tokenizer = tokenizer
        self.text = text or chosen(tokenizer)
        self.marked = bool(MARKS.search(self.text))

    def render(self, where, messages, tools=None, prompt=False, **more):
        try:
            return self.tokenizer.apply_chat_template(
                messages, tools=tools, chat_template=self.text, add_generation_prompt=prompt,
                tokenize=more.get("return_dict", False), **more)
        except Exception as error:  # whatever a template raises: its own complaints, and errors of types
            raise InputError(where, f"the chat template refuses the conversation: {error}",
                             "Change the record, or give another template with --chat-template") from None


def chosen(tokenizer):
    """Returns the tokenizer's template, the default one where it has several."""
    try:
        return tokenizer.get_chat_template()
    except (ValueError, AttributeError):
        raise InputError("--model", "its tokenizer has no chat template, and the records are conversations",
                         "Give one with --chat-template FILE, or use records with text or prompt and "
                         "completion") from None


def assistant_turns(messages):
    """The turns that answer something. A greeting that opens a conversation is no answer, and no prompt precedes it."""
    return [i for i, message in enumerate(messages) if i > 0 and message["role"] == "assistant"]


def require_prefix(where, part, whole, turn):
    if whole.startswith(part):
        return
    at = len(os.path.commonprefix([part, whole]))
    raise InputError(
        where, f"the template renders message {turn + 1} in another way when more messages follow: {part[at:at + 30]!r} "
        f"becomes {whole[at:at + 30]!r}", "Use --each-turn, which renders every assistant turn as the last one, or a "
        "template with {% generation %} marks (--chat-template)")


def require_prompt(where, template, conversation, turn, span):
    """Refuses a turn that starts with text of the template's which no prompt for the assistant holds."""
    before = conversation.messages[:turn]
    plain = template.render(where, before, conversation.tools)
    prompted = template.render(where, before, conversation.tools, prompt=True)
    content = conversation.messages[turn]["content"]
    if prompted != plain or not isinstance(content, str) or span.lstrip().startswith(content.strip()[:20]):
        return
    raise InputError(where, f"the template has no generation prompt, and its assistant turn starts with {span[:30]!r}",
                     "Give a template with a generation prompt or {% generation %} marks (--chat-template)")


def spans_by_prefix(template, conversation, turns):
    """Returns the whole text and the range of characters of each of the assistant's `turns`."""
    where, messages, tools = conversation.where, conversation.messages, conversation.tools
    whole = template.render(where, messages, tools)
    spans = []
    for turn in turns:
        before = template.render(where, messages[:turn], tools, prompt=True)
        through = template.render(where, messages[:turn + 1], tools)
        require_prefix(where, before, through, turn)
        require_prefix(where, through, whole, turn)
        require_prompt(where, template, conversation, turn, through[len(before):])
        spans.append((len(before), without_trailing_space(template.tokenizer, through, len(before))))
    return whole, spans


def without_trailing_space(tokenizer, through, begin):
    """Returns the end of a turn. A newline behind the token that ends a turn belongs to the template."""
    end = begin + len(through[begin:].rstrip())
    ends_with_token = any(through[begin:end].endswith(token) for token in special_texts(tokenizer))
    return end if ends_with_token else len(through)


def special_texts(tokenizer):
    added = getattr(tokenizer, "added_tokens_decoder", {}).values()
    return {str(token) for token in added if getattr(token, "special", False)} | set(tokenizer.all_special_tokens)
