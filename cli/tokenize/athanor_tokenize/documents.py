# SPDX-License-Identifier: Apache-2.0
"""Records become documents: token ids, and for each token whether it is learnt."""

import array
import dataclasses

from athanor_common.errors import InputError

from .records import Completion, Conversation
from .templates import Template, assistant_turns, spans_by_prefix


@dataclasses.dataclass
class Document:
    """Held in five bytes a token, because all documents are in memory until they are packed."""

    ids: array.array
    learnt: bytearray  # 1 where training learns the token
    cut_at_will: bool = False  # plain text, which may go into several sequences

    def __post_init__(self):
        self.ids, self.learnt = array.array("i", self.ids), bytearray(self.learnt)


class Tokens:
    """The tokenizer of a model, and how records become documents with it."""

    def __init__(self, tokenizer, template_text=None, train_on_prompt=False, each_turn=False):
        if not tokenizer.is_fast:
            raise InputError("--model", "its tokenizer does not tell which characters a token stands for",
                             "Give a folder with tokenizer.json (a fast tokenizer)")
        self.tokenizer = tokenizer
        self.template_text = template_text
        self.template = None  # needed by conversations alone
        self.train_on_prompt = train_on_prompt
        self.each_turn = each_turn
        self.kinds = set()  # classes of the records so far

    def idle_options(self):
        """Returns the options that were given and that no record so far has a use for, and what they are for."""
        given = {"--each-turn": self.each_turn, "--chat-template": self.template_text is not None}
        idle = [(name, "conversations") for name, is_given in given.items() if is_given and Conversation not in self.kinds]
        if self.train_on_prompt and not self.kinds & {Conversation, Completion}:
            idle.append(("--train-on-prompt", "conversations and completions; text is learnt as a whole"))
        return idle

    def documents(self, record):
        """Returns the documents of a record; none for a conversation without an assistant turn."""
        self.kinds.add(type(record))
        try:
            if isinstance(record, Conversation):
                return self.conversation(record)
            return [self.completion(record) if isinstance(record, Completion) else self.plain(record)]
        except (TypeError, UnicodeError):  # how tokenizers say that text is no Unicode
            raise InputError(record.where, "its text is no valid Unicode", "Remove lone surrogates such as \\ud800") \
                from None

    def plain(self, record):
        ids = self.with_end(self.tokenizer(record.text, verbose=False)["input_ids"])
        return Document(ids, [True] * len(ids), cut_at_will=True)

    def completion(self, record):
        whole = self.tokenizer(record.prompt + record.completion, return_offsets_mapping=True, verbose=False)
        learnt = self.in_spans(whole["offset_mapping"], [(len(record.prompt), len(record.prompt + record.completion))])
        ids = self.with_end(whole["input_ids"])
        learnt += [True] * (len(ids) - len(learnt))
        return self.checked(record.where, ids, learnt, has_prompt=bool(record.prompt))

    def conversation(self, record):
        self.template = self.template or Template(self.tokenizer, self.template_text)
        turns = [turn for turn in assistant_turns(record.messages) if turn not in record.unlearnt]
        if record.unlearnt:
            self.require_choice_of_turns(record)
        if not turns and not self.train_on_prompt:
            return []
        if not self.each_turn:
            return [self.rendered(record, turns)]
        return [self.rendered(Conversation(record.where, record.messages[:turn + 1], record.tools), [turn])
                for turn in turns]

    def require_choice_of_turns(self, record):
        """Refuses ways that learn every turn of the assistant's, where the record says that one is not to be learnt."""
        turn = min(record.unlearnt)
        if self.train_on_prompt:
            raise InputError(record.where, f"message {turn + 1} says that it is not to be learnt, and --train-on-prompt "
                             "learns every token", "Leave the option or the message's key out")
        if self.template.marked and not self.each_turn:
            raise InputError(record.where, f"message {turn + 1} says that it is not to be learnt, and the template's "
                             "{% generation %} marks do not tell turns apart", "Use --each-turn")

    def rendered(self, record, turns):
        if self.train_on_prompt:
            ids = self.ids_and_offsets(self.template.render(record.where, record.messages, record.tools))[0]
            return Document(ids, [True] * len(ids))
        if self.template.marked and not self.each_turn:
            ids, learnt = self.by_marks(record)
        else:
            text, spans = spans_by_prefix(self.template, record, turns)
            ids, offsets = self.ids_and_offsets(text)
            learnt = self.in_spans(offsets, spans)
        return self.checked(record.where, ids, learnt, has_prompt=len(turns) < len(record.messages))

    def by_marks(self, record):
        rendered = self.template.render(record.where, record.messages, record.tools, return_dict=True,
                                        return_assistant_tokens_mask=True)
        return list(rendered["input_ids"]), [bool(value) for value in rendered["assistant_masks"]]

    def ids_and_offsets(self, text):
        """The template has put the special tokens into the text already."""
        rendered = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return list(rendered["input_ids"]), rendered["offset_mapping"]

    def with_end(self, ids):
        end = self.tokenizer.eos_token_id
        return [*ids] if end is None or (ids and ids[-1] == end) else [*ids, end]

    @staticmethod
    def in_spans(offsets, spans):
        """A token is learnt if it holds a character of the assistant's, as with the marks of transformers."""
        learnt, at = [], 0
        for begin, end in offsets:
            while at < len(spans) and begin >= spans[at][1]:
                at += 1
            learnt.append(at < len(spans) and begin < end and end > spans[at][0])
        return learnt

    @staticmethod
    def checked(where, ids, learnt, has_prompt):
        if not any(learnt):
            raise InputError(where, "no token of the answer is left to learn", "Check the record and the chat "
                             "template: an assistant turn must hold text")
        if has_prompt and all(learnt):
            raise InputError(where, "every token would be learnt, those of the prompt too",
                             "Check the chat template's marks, or ask for that with --train-on-prompt")
        return Document(ids, learnt)
