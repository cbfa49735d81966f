// SPDX-License-Identifier: Apache-2.0
// Elements of the page. Text from files goes in as text alone, never as HTML.
"use strict";

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes ?? {})) made.setAttribute(key, value);
  made.append(...children.filter((child) => child !== null && child !== undefined && child !== ""));
  return made;
}

function tile(label, value, more) {
  return element("div", {class: "tile"}, element("span", {}, label), element("b", {}, value),
                 more ? element("span", {}, more) : null);
}

const tiles = (...made) => element("div", {class: "tiles"}, ...made.filter(Boolean));
const pair = (...sections) => element("div", {class: "pair"}, ...sections.filter(Boolean));

// A column is {name, text: row => string, number: whether it is one}.
function table(columns, rows) {
  const cell = (kind, column, text) =>
      element(kind, {class: column.number ? "number" : column.long ? "text" : ""}, text);
  return element("div", {class: "scroll", tabindex: "0"}, element("table", {},
      element("thead", {}, element("tr", {}, ...columns.map((column) => cell("th", column, column.name)))),
      element("tbody", {}, ...rows.map((row) => element("tr", {},
          ...columns.map((column) => cell("td", column, String(column.text(row)))))))));
}

// The table is made when it is opened: a long one would hold up the page.
function tableBehind(name, columns, rows) {
  const details = element("details", {}, element("summary", {}, name));
  const fill = () => {
    if (details.open && details.childElementCount === 1) details.append(table(columns, rows));
  };
  details.addEventListener("toggle", fill);
  if (!hasCharts) {
    details.open = true;
    fill();
  }
  return details;
}

// What a pointer shows: a heading and lines of text.
function tip(heading, ...lines) {
  return element("div", {class: "tip"}, element("b", {}, heading), ...lines.map((line) => element("div", {}, line)));
}
