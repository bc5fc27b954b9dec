// What all pictures of the page use. Text always goes into text nodes, because names and source lines are untrusted.
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

// A drawing with a width and height in pixels, which shrinks with the page.
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

// Handles arrow keys while a picture has the focus; a click gives it the focus.
function onArrows(picture, does) {
  picture.addEventListener("click", () => picture.focus({ preventScroll: true }));
  picture.addEventListener("keydown", (event) => {
    const action = does[event.key];
    if (!action || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    action();
  });
}

// Draws now, and again when the room for a picture changes.
function onWidth(picture, draw) {
  let last = 0;
  const again = () => {
    const width = picture.clientWidth;
    if (width && width !== last) {
      last = width;
      draw(width);
    }
  };
  // In a new animation frame: a picture that grows during the observer's call makes the browser report a loop.
  new ResizeObserver(() => requestAnimationFrame(again)).observe(picture);
  again();
}

function clamp(number, least, most) {
  return Math.max(least, Math.min(most, number));
}
