// What all pictures of the page use. Text always goes into text nodes, for names and source lines are others'.
"use strict";

const SVG = "http://www.w3.org/2000/svg";

// The values of a part, from its JSON.
function valuesOf(name) {
  const found = document.getElementById(`values-${name}`);
  return found ? JSON.parse(found.textContent) : null;
}

// An element of HTML or, with a namespace, of SVG.
function element(tag, attributes = {}, text = "", space = null) {
  const made = space ? document.createElementNS(space, tag) : document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value);
  if (text !== "") made.textContent = text;
  return made;
}

function drawn(tag, attributes = {}, text = "") {
  return element(tag, attributes, text, SVG);
}

// A drawing so many pixels wide and high, which shrinks with the page.
function drawing(width, height) {
  return drawn("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img" });
}

function colour(name) {
  return `var(--tw-${name})`;
}

function counted(number, noun) {
  return `${number.toLocaleString("en")} ${noun}${number === 1 ? "" : "s"}`;
}

// Puts options into a select, as [value, words].
function offer(select, options) {
  select.replaceChildren(...options.map(([value, words]) => element("option", { value }, words)));
}

// Lets arrow keys do something while a picture has the focus; a click gives it that.
function onArrows(picture, does) {
  picture.addEventListener("click", () => picture.focus({ preventScroll: true }));
  picture.addEventListener("keydown", (event) => {
    const action = does[event.key];
    if (!action || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    action();
  });
}

// Draws now, and again where the room for a picture has changed.
function onWidth(picture, draw) {
  let last = 0;
  const again = () => {
    const width = picture.clientWidth;
    if (width && width !== last) {
      last = width;
      draw(width);
    }
  };
  // In a frame of its own: a picture that grows where it is observed makes the browser complain of a loop.
  new ResizeObserver(() => requestAnimationFrame(again)).observe(picture);
  again();
}

function clamp(number, least, most) {
  return Math.max(least, Math.min(most, number));
}
