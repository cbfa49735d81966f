// SPDX-License-Identifier: Apache-2.0
// Charts: what they share, and one function for each kind. Apache ECharts draws them.
"use strict";

const hasCharts = typeof echarts !== "undefined";
const dark = matchMedia("(prefers-color-scheme: dark)");
const narrow = () => document.documentElement.clientWidth < 640;

// Okabe and Ito's colours, which colour-blind people can tell apart. Yellow and black are left out: each is lost on one
// of the two grounds. Blue has a lighter shade on the dark one.
function palette() {
  return dark.matches
      ? ["#56B4E9", "#E69F00", "#009E73", "#CC79A7", "#D55E00", "#3d8fd1", "#9aa3ad"]
      : ["#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#6b747e"];
}
function ground() {
  const style = getComputedStyle(document.documentElement);
  const value = (name) => style.getPropertyValue(name).trim();
  return {ground: value("--ground"), panel: value("--panel"), ink: value("--ink"), soft: value("--soft"),
          line: value("--line")};
}

// ECharts measures an axis's labels in their own font, not in that of the chart.
const fonts = () => getComputedStyle(document.body).fontFamily;

function axis(more) {
  const colours = ground();
  return {
    nameTextStyle: {color: colours.soft},
    axisLabel: {color: colours.soft, fontFamily: fonts(), hideOverlap: true, ...more.axisLabel},
    axisLine: {lineStyle: {color: colours.line}}, axisTick: {lineStyle: {color: colours.line}},
    splitLine: {show: more.type !== "category", lineStyle: {color: colours.line, opacity: 0.6}},
    ...Object.fromEntries(Object.entries(more).filter(([key]) => key !== "axisLabel")),
  };
}
const valueAxis = (name, format, more = {}) =>
    axis({type: "value", name, nameGap: 12, ...more, axisLabel: {formatter: format, ...more.axisLabel}});

// Range and ticks of an axis from `least` to `most` bytes, at whole numbers of a binary unit.
function byteTicks(most, least = 0) {
  const unit = 2 ** (10 * Math.max(0, Math.floor(Math.log2(Math.max(most, 1)) / 10)));
  const rough = Math.max((most - least) / unit, 0.01) / (narrow() ? 3 : 5);
  const power = 10 ** Math.floor(Math.log10(rough));
  const tick = [1, 2, 5, 10].map((step) => step * power).find((step) => step >= rough) * unit;
  return {min: Math.floor(least / tick) * tick, max: Math.ceil(most / tick) * tick, interval: tick};
}
const ticks = (format, values) => format === bytes ? byteTicks(Math.max(...values)) : {};

function shared(more) {
  const colours = ground();
  return {
    animation: false, color: palette(), backgroundColor: "transparent",  // its text is that of the box
    textStyle: {color: colours.ink, fontFamily: fonts()},
    legend: {top: 0, left: 0, type: "scroll", textStyle: {color: colours.ink}, pageTextStyle: {color: colours.ink},
             pageIconColor: colours.ink},
    ...more,
    grid: {left: 8, right: 28, top: 48, bottom: 8, containLabel: true, ...more.grid},
    tooltip: {backgroundColor: colours.panel, borderColor: colours.line, textStyle: {color: colours.ink}, confine: true,
              ...more.tooltip},
  };
}

// The slider zooms everywhere; so do fingers, and a wheel with Ctrl held, so that a wheel alone scrolls the page.
function zoom(more = {}) {
  const colours = ground();
  const common = {filterMode: "weakFilter", ...more};
  return [
    {type: "inside", zoomOnMouseWheel: "ctrl", moveOnMouseWheel: false, preventDefaultMouseMove: false, ...common},
    {type: "slider", height: 22, bottom: 4, borderColor: colours.line, textStyle: {color: colours.soft},
     showDataShadow: false, brushSelect: false, ...common},
  ];
}

// A section with a title that says what it shows, a sentence with the finding, the chart, and the table behind it.
function section({title, finding, height, option, columns, rows, notes = [], controls = null, tableName = "Table"}) {
  const made = element("section", {}, element("h2", {}, title), finding ? element("p", {}, finding) : null, controls);
  if (option && hasCharts) {
    const box = element("div", {class: "chart", style: `height:${height ?? 320}px`, role: "img",
                                "aria-label": `${title}. ${finding ?? ""}`});
    made.append(box);
    drawn.push({box, option, chart: null});
  }
  made.append(...notes.filter(Boolean).map((note) => element("p", {class: "note"}, note)));
  if (columns) made.append(tableBehind(`${tableName} (${count(rows.length)} ${rows.length === 1 ? "row" : "rows"})`, columns, rows));
  return made;
}

// Charts are drawn when they come into view.
const drawn = [];
function draw(entry) {
  if (!entry.chart) entry.chart = echarts.init(entry.box);
  entry.chart.setOption(entry.option(), {notMerge: true});
}
function drawAll() {
  const seen = new IntersectionObserver((entries) => {
    for (const {target, isIntersecting} of entries) {
      const entry = drawn.find(({box}) => box === target);
      if (isIntersecting && !entry.chart) draw(entry);
    }
  }, {rootMargin: "300px"});
  const sized = new ResizeObserver((entries) => {
    for (const {target} of entries) drawn.find(({box}) => box === target).chart?.resize();
  });
  for (const {box} of drawn) {
    seen.observe(box);
    sized.observe(box);
  }
  const again = () => drawn.filter(({chart}) => chart).forEach(draw);
  dark.addEventListener("change", again);
  matchMedia("(max-width: 639px)").addEventListener("change", again);
}
const redraw = (box) => drawn.filter((entry) => entry.box === box && entry.chart).forEach(draw);

// Lines. A line is {name, series: {x, y, points}, dashed, symbols}; `flat` are {name, y} across all. Points at or before
// `warmUp` do not count for the range of the vertical axis.
function lineChart({title, finding, xName, xFormat, yFormat, lines, flat = [], warmUp = -Infinity, notes = [], height}) {
  const settled = lines.flatMap(({series}) => series.y.filter((_, i) => series.x[i] > warmUp));
  const counted = (settled.length > 0 ? settled : lines.flatMap(({series}) => series.y)).concat(flat.map(({y}) => y));
  const [low, high] = [counted.reduce((a, b) => Math.min(a, b)), counted.reduce((a, b) => Math.max(a, b))];
  const range = Number.isFinite(warmUp) ? {min: low - 0.1 * (high - low), max: high + 0.1 * (high - low)} : {};
  const thinned = lines.filter(({series}) => series.points > series.x.length);
  const option = () => shared({
    legend: {...shared({}).legend, show: lines.length + flat.length > 1},
    grid: {bottom: 58, top: lines.length + flat.length > 1 ? 48 : 16},
    xAxis: valueAxis(xName, xFormat, {min: "dataMin", max: "dataMax", nameLocation: "middle", nameGap: 26,
                                      splitLine: {show: false}}),
    yAxis: valueAxis("", yFormat, {scale: true, ...range, axisLabel: {showMinLabel: range.max ? false : undefined, showMaxLabel: range.max ? false : undefined},
                               ...ticks(yFormat, counted)}),
    dataZoom: zoom({filterMode: "none"}),
    tooltip: {trigger: "axis", formatter: (items) => tip(
        `${xName} ${xFormat(items[0].value[0])}`,
        ...items.map(({seriesName, value}) => `${seriesName}: ${yFormat(value[1])}`))},
    series: [
      ...lines.map(({name, series, dashed, symbols}) => ({
        name, type: "line", showSymbol: Boolean(symbols) || series.x.length < 3, symbolSize: 5,
        lineStyle: {width: 1.8, type: dashed ? "dashed" : "solid"}, data: series.x.map((x, i) => [x, series.y[i]]),
      })),
      ...flat.map(({name, y}) => ({
        name, type: "line", showSymbol: false, lineStyle: {width: 1.8, type: "dashed"},
        data: [[Math.min(...lines.map(({series}) => series.x[0])), y],
               [Math.max(...lines.map(({series}) => series.x.at(-1))), y]],
      })),
    ],
  });
  const rows = lines.flatMap(({name, series}) => series.x.map((x, i) => ({name, x, y: series.y[i]})));
  return section({
    title, finding, option, height, rows,
    notes: [...notes, thinned.length === 0 ? null :
        `Shown are ${count(thinned[0].series.x.length)} of ${count(thinned[0].series.points)} points: the lowest and ` +
        "the highest of equal groups."],
    columns: [{name: xName, number: true, text: ({x}) => xFormat(x)},
              ...(lines.length > 1 ? [{name: "series", text: ({name}) => name}] : []),
              {name: "value", number: true, text: ({y}) => yFormat(y)}],
  });
}

// Bars that lie: one group for each category. A set is {name, values}.
function barChart({title, finding, categories, sets, format, notes = [], columns, rows, extra = []}) {
  const option = () => shared({
    legend: {...shared({}).legend, show: sets.length > 1},
    grid: {top: sets.length > 1 ? 36 : 8, right: sets.length > 1 || narrow() ? 28 : 64},
    xAxis: valueAxis("", format, {min: 0, splitNumber: narrow() ? 3 : 6, ...ticks(format, sets.flatMap(({values}) => values))}),
    yAxis: axis({type: "category", inverse: true, data: categories, axisTick: {show: false},
                 axisLabel: {hideOverlap: false, width: narrow() ? 110 : 220, overflow: "truncate"}}),
    tooltip: {trigger: "axis", axisPointer: {type: "shadow"}, formatter: (items) => tip(
        categories[items[0].dataIndex],
        ...items.map(({seriesName, value}) => sets.length > 1 ? `${seriesName}: ${format(value)}` : format(value)),
        ...(extra[items[0].dataIndex] ?? []))},
    series: sets.map(({name, values}) => ({
      name, type: "bar", data: values, barMaxWidth: 18, barGap: "10%",
      label: {show: sets.length === 1 && !narrow(), position: "right", color: ground().soft, formatter: ({value}) => format(value)},
    })),
  });
  return section({title, finding, option, notes, height: 56 + categories.length * (sets.length > 1 ? 44 : 30),
                  columns: columns ?? [{name: "", text: (i) => categories[i]},
                                       ...sets.map(({name, values}) => ({name, number: true, text: (i) => format(values[i])}))],
                  rows: rows ?? categories.map((_, i) => i)});
}
