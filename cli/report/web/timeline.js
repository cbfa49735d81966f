// SPDX-License-Identifier: Apache-2.0
// Both timelines of a step, lane by lane: each operation's prediction above its measurement.
"use strict";

// Kinds of operations by what they do; a group has one colour.
const kindGroups = [
  ["forward", ["forward"]],
  ["backward", ["backward"]],
  ["recompute", ["recompute"]],
  ["collectives", ["gather", "reduce", "norm", "loss"]],
  ["updates", ["adam", "adam-rollback", "square-sum"]],
  ["copies to the GPU", ["fetch", "param-h2d", "output-h2d", "state-read", "param-read"]],
  ["copies from the GPU, writes", []],
];
function groupOf(kind) {
  const found = kindGroups.findIndex(([, kinds]) => kinds.includes(kind));
  return found < 0 ? kindGroups.length - 1 : found;
}

const microseconds = (value) => seconds(value * 1e-6);

function byOperation(timeline) {
  const found = new Map();
  timeline?.operation.forEach((operation, i) => found.set(operation, [timeline.start[i], timeline.end[i]]));
  return found;
}

const span = (interval) => interval
    ? `${microseconds(interval[1] - interval[0])}, from ${microseconds(interval[0])} to ${microseconds(interval[1])}`
    : "not in this timeline";

function timelineChart(data) {
  const {operations, lanes, kinds} = data;
  const both = data.measured.length > 0;
  const used = [...new Set(operations.lane)].sort((a, b) => a - b);
  const rows = used.flatMap((lane) => both ? [[lane, 0], [lane, 1]] : [[lane, 0]]);
  let rank = 0;
  const sides = () => [data.predicted[0], data.measured[rank]];

  const bars = () => kindGroups.map(() => []).map((_, group) => sides().flatMap((timeline, side) =>
      !timeline ? [] : timeline.operation.flatMap((operation, i) =>
          groupOf(kinds[operations.kind[operation]]) !== group ? [] : [[
            rows.findIndex(([lane, rowSide]) => lane === operations.lane[operation] && rowSide === side),
            timeline.start[i], timeline.end[i], operation]])));

  let colours = ground();
  const render = (params, api) => {
    const start = api.coord([api.value(1), api.value(0)]);
    const end = api.coord([api.value(2), api.value(0)]);
    const height = api.size([0, 1])[1] * 0.84;
    const whole = {x: start[0], y: start[1] - height / 2, width: Math.max(end[0] - start[0], 0.6), height};
    const shape = echarts.graphic.clipRectByRect(whole, params.coordSys);
    // Between operations of a pixel or two, lines would be all that one sees.
    const style = {fill: api.visual("color"), stroke: colours.ground, lineWidth: whole.width > 4 ? 0.5 : 0};
    return shape && {type: "rect", shape, style};
  };

  const option = () => {
    const [predicted, measured] = sides().map(byOperation);
    colours = ground();
    return shared({
      grid: {top: 40, bottom: 58},
      xAxis: valueAxis("", microseconds, {min: "dataMin", max: "dataMax", position: "bottom"}),
      yAxis: axis({type: "category", inverse: true, axisTick: {show: false}, data: rows.map(([lane, side]) =>
          both ? `${lanes[lane]}${narrow() ? (side ? " m" : " p") : side ? " measured" : " predicted"}` : lanes[lane]),
          axisLabel: {hideOverlap: false, interval: 0}, splitArea: {show: false}}),
      dataZoom: zoom({xAxisIndex: 0, labelFormatter: (value) => microseconds(value)}),
      tooltip: {trigger: "item", formatter: ({value}) => tip(
          operations.name[value[3]],
          `predicted ${span(predicted.get(value[3]))}`,
          ...(both ? [`measured ${span(measured.get(value[3]))}`] : []),
          `lane ${lanes[operations.lane[value[3]]]}${both ? `, rank ${data.measured[rank].rank}` : ""}`)},
      series: bars().map((items, group) => ({
        name: kindGroups[group][0], type: "custom", renderItem: render, encode: {x: [1, 2], y: 0}, data: items,
        itemStyle: {color: palette()[[0, 1, 4, 2, 3, 5, 6][group]]},
      })).filter(({data: items}) => items.length > 0),
    });
  };

  let controls = null;
  if (data.measured.length > 1) {
    const select = element("select", {"aria-label": "rank"}, ...data.measured.map((timeline, i) =>
        element("option", {value: String(i)}, `rank ${timeline.rank}`)));
    select.addEventListener("change", () => {
      rank = Number(select.value);
      redraw(made.querySelector(".chart"));
    });
    controls = element("div", {class: "controls"}, element("label", {}, "Measured on ", select));
  }
  const expected = byOperation(data.predicted[0]);
  const seen = byOperation(data.measured[0]);
  const length = (interval) => interval ? microseconds(interval[1] - interval[0]) : "-";
  const made = section({
    title: both ? "Timelines, lane by lane" : "Predicted timeline, lane by lane",
    finding: both ? "Of each lane, the upper row is the prediction and the lower one the measurement. Both start with the step's first computation."
                  : "The step starts with its first computation.",
    controls, option, height: 110 + rows.length * (both ? 26 : 34),
    notes: [
      "Pull the slider's ends, pinch, or turn the wheel with Ctrl held to zoom; drag to move. Only this step's operations are shown: the steps before and after overlap it.",
      narrow() && both ? "p: predicted, m: measured." : null,
      data.shown < data.of ? `Shown are the ${count(data.shown)} longest of ${count(data.of)} operations.` : null,
      data.ranks < data.of_ranks ? `Shown are ${data.ranks} of ${data.of_ranks} ranks.` : null,
    ],
    columns: [
      {name: "operation", long: true, text: (i) => operations.name[i]},
      {name: "lane", text: (i) => lanes[operations.lane[i]]},
      {name: "predicted start", number: true, text: (i) => expected.has(i) ? microseconds(expected.get(i)[0]) : "-"},
      {name: "predicted", number: true, text: (i) => length(expected.get(i))},
      ...(both ? [{name: "measured start", number: true, text: (i) => seen.has(i) ? microseconds(seen.get(i)[0]) : "-"},
                  {name: "measured", number: true, text: (i) => length(seen.get(i))}] : []),
    ],
    rows: operations.name.map((_, i) => i),
  });
  return made;
}
