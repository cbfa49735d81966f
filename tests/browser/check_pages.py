# SPDX-License-Identifier: Apache-2.0
"""Opens pages of athanor report in a headless Chromium: light, dark, and as wide as a telephone.

usage: check_pages.py ATHANOR [--pictures FOLDER] [PAGE..]

Makes a search, a table of platforms and a run of 2,000 steps on eight ranks, or takes pages that are there. A page may say
nothing on the console, ask for nothing, and be no wider than the screen. Every chart has to be drawn, to show something
under the mouse, and to zoom where it can. Exits with 77 (skipped) where there is no Chromium."""

import argparse
import pathlib
import sys
import tempfile

import chromium
import pages

MOST_BYTES = 3_000_000
# A chart, once it is in view: what it says of itself, and points of its series on the screen.
CHART = """async (number) => {
  const box = document.querySelectorAll(".chart")[number];
  box.scrollIntoView({block: "center"});
  for (let tries = 0; tries < 100 && !echarts.getInstanceByDom(box); ++tries) await new Promise((f) => setTimeout(f, 20));
  const place = box.getBoundingClientRect(), chart = echarts.getInstanceByDom(box), option = chart?.getOption();
  const points = (option?.series ?? []).flatMap(({data}, seriesIndex) => (data ?? []).slice(0, 3).map((each) => {
    try { return chart.convertToPixel({seriesIndex}, (each.value ?? each).slice(0, 2)); } catch { return null; }
  }));
  return {x: place.x, y: place.y, width: place.width, height: place.height, name: box.ariaLabel,
          title: box.closest("section").querySelector("h2").innerText, isDrawn: Boolean(chart),
          points: points.filter((each) => each?.every?.(Number.isFinite)), zooms: Boolean(option?.dataZoom?.length)};
}"""
# How many colours a chart has: one that was not drawn has none but its ground.
COLOURS = """(number) => {
  const canvas = document.querySelectorAll(".chart")[number].querySelector("canvas");
  const data = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data, seen = new Set();
  for (let i = 0; i < data.length; i += 4) if (data[i + 3]) seen.add(data[i] << 16 | data[i + 1] << 8 | data[i + 2]);
  return seen.size;
}"""
# The text of the tooltip that is shown.
TIP = """(number) => [...document.querySelectorAll(".chart")[number].children].filter((each) => !each.querySelector("canvas")
  && each.style.visibility !== "hidden" && each.style.display !== "none").map((each) => each.innerText).join("")"""
RANGE = """(number) => { const zoom = echarts.getInstanceByDom(document.querySelectorAll(".chart")[number])
  .getOption().dataZoom[0]; return [zoom.start, zoom.end]; }"""
CONTROL = 2
NARROW = 640


def hovers(browser, number, chart):
    """Whether anything of the chart answers to a mouse that goes over it: its points, and all of its place."""
    places = [(x, y) for x, y in chart["points"] if 0 < x < chart["width"] and 0 < y < chart["height"]]
    places += [(chart["width"] * across / 12, chart["height"] * down / 16) for down in range(1, 16) for across in range(1, 12)]
    for x, y in places:
        browser.mouse("mouseMoved", chart["x"] + x, chart["y"] + y)
        if browser.run(f"({TIP})({number})").strip():
            return True
    return False


def zooms(browser, number, chart):
    """Whether a wheel with Control held narrows what the chart shows."""
    before = browser.run(f"({RANGE})({number})")
    for _ in range(3):
        browser.mouse("mouseWheel", chart["x"] + chart["width"] / 2, chart["y"] + chart["height"] / 2, deltaX=0, deltaY=-120, modifiers=CONTROL)
    browser.run("new Promise((done) => setTimeout(done, 200))")
    after = browser.run(f"({RANGE})({number})")
    return after[1] - after[0] < before[1] - before[0]


def check(browser, page, width, dark, picture):
    """What is wrong with the page at that width and in that scheme."""
    seconds = browser.open(page, width, dark)
    charts = browser.run("document.querySelectorAll('.chart').length")
    name = f"{page.name} at {width}{' dark' if dark else ''}"
    print(f"{name}: {charts} charts, drawn in {seconds:.2f} s, {page.stat().st_size / 1e6:.2f} MB", flush=True)
    wrong = [] if charts else ["has no charts"]
    for number in range(charts):
        chart = browser.run(f"({CHART})({number})")
        title = chart["title"]
        if not chart["name"].startswith(title):
            wrong.append(f"calls {title!r} {chart['name'][:40]!r} to those who do not see it")
        if not chart["isDrawn"] or browser.run(f"({COLOURS})({number})") < 3:
            wrong.append(f"does not draw {title!r}")
        elif width > NARROW and not dark:
            if not hovers(browser, number, chart):
                wrong.append(f"shows nothing under the mouse in {title!r}")
            if chart["zooms"] and not zooms(browser, number, chart):
                wrong.append(f"does not zoom {title!r}")
    if browser.run("document.documentElement.scrollWidth") > width:
        wrong.append("is wider than the screen")
    if picture:
        browser.run("scrollTo(0, 0)")
        browser.picture(picture / f"{page.stem}-{width}{'-dark' if dark else ''}.png")
    wrong += [f"says {text!r}" for text in browser.said]
    return [f"{name} {each}" for each in wrong]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("athanor")
    parser.add_argument("pages", nargs="*", type=pathlib.Path, metavar="PAGE")
    parser.add_argument("--pictures", type=pathlib.Path, help="also write what is seen into this folder")
    options = parser.parse_args()
    if not chromium.PROGRAM:
        print("skipped: there is no Chromium")
        return 77
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        made = [page.absolute() for page in options.pages] or [
            make(options.athanor, folder) for make in (pages.search_page, pages.platforms_page, pages.long_run_page)]
        if "echarts" not in made[0].read_text(encoding="utf-8"):
            print("skipped: this build has no chart library")
            return 77
        wrong = [f"{page.name} has {page.stat().st_size} bytes" for page in made if page.stat().st_size > MOST_BYTES]
        browser = chromium.Browser()
        try:
            for page in made:
                for width, dark in ((1200, False), (1200, True), (390, False)):
                    wrong += check(browser, page, width, dark, options.pictures)
        finally:
            browser.close()
    print("\n".join(wrong))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
