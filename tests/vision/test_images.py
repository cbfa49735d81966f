# SPDX-License-Identifier: Apache-2.0
"""Images from folders and parquet against transformers' own image processors, and bad input by name.

Exits with 77 (skipped) where transformers or Pillow is absent."""

import contextlib
import importlib.util
import io
import json
import pathlib
import sys
import tempfile
import unittest

if not all(map(importlib.util.find_spec, ("transformers", "safetensors", "torch", "numpy", "PIL"))):
    print("skipped: transformers or Pillow is absent")
    sys.exit(77)

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "cli" / folder) for folder in ("tokenize", "common")]

import numpy  # noqa: E402
import small_classifiers as small  # noqa: E402
import transformers  # noqa: E402
from athanor_tokenize import image_folder, images, pixels, program  # noqa: E402
from PIL import Image  # noqa: E402
from safetensors.numpy import load_file  # noqa: E402

HAS_PARQUET = importlib.util.find_spec("pyarrow") is not None
NAMED = {"id2label": {"0": "square", "1": "disc", "2": "cross", "3": "star"}}


class Case(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory()
        self.addCleanup(scratch.cleanup)
        self.folder = pathlib.Path(scratch.name)
        self.write_model()
        small.write_pictures(self.folder / "pictures", 5)

    def write_model(self, kind="vit", processor=(), **changes):
        model = self.folder / "model"
        model.mkdir(exist_ok=True)
        config = small.CONFIGS[kind].to_dict() | {"architectures": ["ViTForImageClassification"]} | changes
        (model / "config.json").write_text(json.dumps(config))
        small.write_processor(model, **dict(processor))

    def run_program(self, *words, output="images"):
        out, err = io.StringIO(), io.StringIO()
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = program.main(["tokenize", "--model", f"{self.folder}/model", *map(str, words), "-o",
                                 f"{self.folder}/{output}"])
        return code, out.getvalue(), err.getvalue()

    def made(self, *words, output="images"):
        """Returns the index, pixels and labels that the program makes."""
        code, _, err = self.run_program(*words, output=output)
        self.assertEqual((code, err), (0, ""))
        return self.read(output)

    def read(self, output):
        index = json.loads((self.folder / output / "index.json").read_text())
        shards = [load_file(self.folder / output / shard["file"]) for shard in index["shards"]]
        return index, *(numpy.concatenate([shard[name] for shard in shards]) for name in ("pixels", "labels"))

    def refuse(self, *words, parts):
        code, _, err = self.run_program(*words)
        self.assertEqual(code, 2, err)
        for part in parts:
            self.assertIn(part, err)
        self.assertFalse((self.folder / "images" / "index.json").exists())


class Folders(Case):
    def theirs(self, *files):
        """Returns what the model's processor makes of files."""
        processor = transformers.AutoImageProcessor.from_pretrained(self.folder / "model", use_fast=False)
        return processor([Image.open(file) for file in files], return_tensors="np")["pixel_values"]

    def check(self, kind="vit", **processor):
        """Every image that transformers' processor makes is in the folder, with its label."""
        self.write_model(kind, processor)
        index, made, labels = self.made("--data", self.folder / "pictures")
        self.assertEqual(made.dtype, numpy.uint8)
        shape = (-1, 1, 1)
        ours = (made * index["scale"] - numpy.reshape(index["mean"], shape)) / numpy.reshape(index["std"], shape)
        self.assertEqual(index["labels"], list(small.LABELS))
        left = list(zip(ours, labels))
        for number, label in enumerate(small.LABELS):
            files = sorted((self.folder / "pictures" / label).iterdir())
            for expected in self.theirs(*files):
                found = [i for i, (image, _) in enumerate(left) if numpy.allclose(image, expected, atol=1e-5)]
                self.assertEqual([left[i][1] for i in found], [number])
                left.pop(found[0])
        self.assertEqual(left, [])

    def test_pixels_are_those_of_vits_processor(self):
        self.check()

    def test_pixels_are_those_of_dinov2s_processor(self):
        self.check("dinov2", image_processor_type="BitImageProcessor", size={"shortest_edge": 20}, do_center_crop=True,
                   crop_size={"height": 16, "width": 16}, resample=3, do_convert_rgb=True)

    def test_a_processor_that_does_not_normalise(self):
        self.check(do_normalize=False, rescale_factor=1 / 127.5)

    def test_the_order_is_shuffled_and_parts_share_no_image(self):
        options = ["--data", self.folder / "pictures", "--val-share", 0.4]
        _, made, labels = self.made(*options)
        _, again, _ = self.made(*options, output="again")
        _, other, _ = self.made(*options, "--seed", 1, output="other")
        self.assertTrue(numpy.array_equal(made, again))
        self.assertFalse(numpy.array_equal(made, other))
        self.assertNotEqual(list(labels), sorted(labels))
        _, held, _ = self.read("images/validation")
        self.assertEqual((len(made), len(held)), (9, 6))
        self.assertEqual(len({image.tobytes() for image in [*made, *held]}), 15)

    def test_shards_hold_what_one_file_would(self):
        found, order = images.read_images([self.folder / "pictures"])
        config = json.loads((self.folder / "model" / "config.json").read_text())
        names, numbers = images.numbered(found, order, config, "model")
        maker = pixels.Pixels(pixels.load_processor(self.folder / "model"), config)
        for output, size in (("one", 1 << 20), ("many", 4 * 3 * 16 * 16)):
            image_folder.write_folder(self.folder / output, list(zip(found, numbers)), names, maker, "model", size)
        one, many = self.read("one"), self.read("many")
        self.assertEqual([len(index["shards"]) for index, *_ in (one, many)], [1, 4])
        for left, right in zip(one[1:], many[1:]):
            self.assertTrue(numpy.array_equal(left, right))

    def test_a_model_with_names_of_its_own_decides_their_numbers(self):
        self.write_model(**NAMED)
        index, made, labels = self.made("--data", self.folder / "pictures")
        self.assertEqual(index["labels"], ["square", "disc", "cross", "star"])
        self.assertEqual(sorted(labels), [0] * 5 + [1] * 5 + [2] * 5)
        square = self.theirs(self.folder / "pictures" / "square" / "0.png")[0]
        mean, std = (numpy.reshape(index[key], (-1, 1, 1)) for key in ("mean", "std"))
        close = [numpy.allclose((image * index["scale"] - mean) / std, square, atol=1e-5) for image in made]
        self.assertEqual(list(labels[close]), [0])

    def test_what_is_no_photograph_in_colour(self):
        for mode in ("L", "RGBA", "P", "CMYK"):
            Image.new(mode, (9, 7)).save(self.folder / "pictures" / "disc" / f"{mode}.{'tiff' if mode == 'CMYK' else 'png'}")
        (self.folder / "pictures" / "disc" / ".DS_Store").write_bytes(b"no image")
        self.assertEqual(len(self.made("--data", self.folder / "pictures")[1]), 19)

    def test_images_of_more_than_8_bits(self):
        deep = numpy.uint16([[0, 255], [7, 9]])
        Image.fromarray(deep).save(self.folder / "deep.png")
        decoded = images.Labelled("deep", 0, self.folder / "deep.png").decoded(3)
        self.assertEqual(decoded[:, :, 0].tolist(), deep.tolist())
        for name, pixels_ in (("deep.png", deep * 257), ("fractions.tiff", numpy.float32([[0, 0.5]]))):
            path = self.folder / "pictures" / "disc" / name
            Image.fromarray(pixels_).save(path)
            self.refuse("--data", self.folder / "pictures", parts=(name, "more than 8 bits", "would be clipped"))
            path.unlink()

    def test_images_beside_the_class_folders_are_told(self):
        Image.new("RGB", (9, 7)).save(self.folder / "pictures" / "loose.png")
        code, _, err = self.run_program("--data", self.folder / "pictures")
        self.assertEqual(code, 0, err)
        self.assertIn("files beside the class folders are not used: 'loose.png' (1 in all)", err)

    def test_photographs_stand_upright(self):
        turned = Image.fromarray(numpy.uint8([[[255] * 3, [0] * 3]] * 2))
        exif = turned.getexif()
        exif[0x0112] = 3  # upside down
        turned.save(self.folder / "turned.png", exif=exif)
        decoded = images.Labelled("turned", 0, self.folder / "turned.png").decoded(3)
        self.assertEqual(decoded[0, :, 0].tolist(), [0, 255])

    def test_one_channel(self):
        self.write_model("vit, one channel, patches that leave a rest", {"image_mean": [0.5], "image_std": [0.5]})
        self.assertEqual(self.made("--data", self.folder / "pictures")[1].shape, (15, 1, 16, 16))

    def test_another_size_than_the_processors(self):
        self.write_model(processor={"side": 24})
        self.refuse("--data", self.folder / "pictures", parts=("24 x 24", "image_size is 16", "--image-size 16"))
        code, _, err = self.run_program("--data", self.folder / "pictures", "--image-size", 16)
        self.assertEqual(code, 0, err)
        self.assertIn("preprocessor_config.json may say another number", err)


class Refusals(Case):
    def test_folders_that_are_not_of_classes(self):
        pictures = self.folder / "pictures"
        self.refuse("--data", pictures / "disc", parts=("disc", "has no class folders"))
        self.refuse("--data", self.folder, parts=("folder of classes itself", "pictures"))
        self.refuse("--data", self.folder / "none", parts=("none", "is not there"))
        (pictures / "disc" / "notes.txt").write_text("no image")
        self.refuse("--data", pictures, parts=("notes.txt", "is no image that can be read"))

    def test_text_for_a_model_of_images(self):
        (self.folder / "chat.jsonl").write_text('{"text": "hello"}\n')
        self.refuse("--data", self.folder / "chat.jsonl", parts=("chat.jsonl", "the model classifies images"))
        self.refuse("--data", self.folder / "pictures", "--seq", 8, parts=("--seq", "is for language models"))

    def test_images_for_a_model_of_language(self):
        self.write_model(architectures=["GPT2LMHeadModel"])
        self.refuse("--data", self.folder / "pictures", "--image-size", 8, parts=("--image-size", "is for images"))

    def test_labels_that_are_not_the_models(self):
        self.write_model(id2label={"0": "LABEL_0", "1": "LABEL_1"})
        self.refuse("--data", self.folder / "pictures", parts=("has 3 classes", "tells 2 apart", "num_labels=3"))
        self.write_model(id2label={"0": "disc", "1": "square", "2": "star"})
        self.refuse("--data", self.folder / "pictures", parts=("cross", "none of the model's 3", "id2label"))

    def test_processors_that_cannot_be_used(self):
        path = self.folder / "model" / "preprocessor_config.json"
        self.write_model(processor={"image_mean": [0.5]})
        self.refuse("--data", self.folder / "pictures", parts=("image_mean", "1 numbers for 3 channels"))
        path.unlink()
        self.refuse("--data", self.folder / "pictures", parts=("no image processor", "preprocessor_config.json"))

    def test_a_processor_that_does_more_is_found_out(self):
        class Odd:
            do_rescale, rescale_factor, do_normalize, image_mean, image_std = True, 1 / 255, True, 0.5, 0.5

            def __call__(self, decoded, do_normalize=True, **_):
                made = numpy.ascontiguousarray(decoded[:16, :16].transpose(2, 0, 1))
                return {"pixel_values": [made / 255 if do_normalize else made]}

        maker = pixels.Pixels(Odd(), {"image_size": 16})
        with self.assertRaisesRegex(images.InputError, "makes other values"):
            maker.of(images.Labelled("a.png", 0, self.folder / "pictures" / "disc" / "0.png"))

    def test_data_is_not_written_over(self):
        self.made("--data", self.folder / "pictures")
        code, _, err = self.run_program("--data", self.folder / "pictures")
        self.assertEqual(code, 2)
        self.assertIn("holds prepared data already", err)


@unittest.skipUnless(HAS_PARQUET, "pyarrow is absent")
class Parquet(Case):
    def write(self, labels, names=None, column="image", content=None):
        """Writes a table as Hugging Face's datasets does."""
        import pyarrow
        import pyarrow.parquet
        encoded = []
        for number, label in enumerate(labels):
            buffer = io.BytesIO()
            drawn = small.picture(small.LABELS[number % 3], number, numpy.random.default_rng(number))
            Image.fromarray(drawn).save(buffer, "PNG")
            encoded.append({"bytes": buffer.getvalue() if content is None else content, "path": None})
        table = pyarrow.table({column: encoded, "label": labels})
        if names:
            features = {"label": {"names": names, "_type": "ClassLabel"}}
            table = table.replace_schema_metadata({"huggingface": json.dumps({"info": {"features": features}})})
        pyarrow.parquet.write_table(table, self.folder / "a.parquet")
        return ["--data", self.folder / "a.parquet"]

    def test_numbers_names_and_names_of_numbers(self):
        index, _, labels = self.made(*self.write([0, 1, 2, 2]))
        self.assertEqual((index["labels"], sorted(labels)), (["LABEL_0", "LABEL_1", "LABEL_2"], [0, 1, 2, 2]))
        index, _, labels = self.made(*self.write(["b", "a", "c", "c"]), output="names")
        self.assertEqual((index["labels"], sorted(labels)), (["a", "b", "c"], [0, 1, 2, 2]))
        # The file's order of names counts, also of names that do not occur.
        index, _, labels = self.made(*self.write([2, 2, 0], names=["z", "y", "x"]), output="numbered")
        self.assertEqual((index["labels"], sorted(labels)), (["z", "y", "x"], [0, 2, 2]))
        self.write_model(**NAMED)
        _, _, labels = self.made(*self.write([2, 2, 0], names=["cross", "disc", "square"]), output="own")
        self.assertEqual(sorted(labels), [0, 0, 2])

    def test_bad_rows_are_named(self):
        self.refuse(*self.write([0, 1, 3]), parts=("a.parquet: row 3", "label 3", "model's 3", "id2label"))
        self.refuse(*self.write([0, 5], names=["a", "b", "c"]), parts=("row 2:label", "none of the file's 3 names"))
        self.refuse(*self.write([0.5]), parts=("row 1:label", "is float"))
        self.refuse(*self.write([0], column="photo"), parts=("row 1", "no column image or img", "photo, label"))
        self.refuse(*self.write([0], content=b"text"), parts=("row 1", "is no image that can be read"))


if __name__ == "__main__":
    unittest.main()
