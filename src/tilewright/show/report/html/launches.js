// A program's launches: each is a page in a frame that is as high as its content, so that nothing scrolls in it.
{
  const { before, after, pages } = valuesOf("launches");
  const places = document.querySelector(".launches");
  const chosen = [document.getElementById("launch"), document.getElementById("beside")];
  const labels = pages.map(([label], number) => [number, label]);
  offer(chosen[0], labels);
  offer(chosen[1], [["", "nothing"], ...labels]);

  const framed = (number) => {
    const frame = element("iframe", { title: pages[number][0], srcdoc: before + pages[number][1] + after });
    frame.addEventListener("load", () => {
      const content = frame.contentDocument;
      const fit = () => { frame.style.height = `${content.body.offsetHeight + 60}px`; };
      new ResizeObserver(fit).observe(content.body);
      fit();
    });
    return frame;
  };
  const show = () => {
    const numbers = chosen.map((select) => select.value).filter((value) => value !== "");
    places.replaceChildren(...numbers.map(framed));
  };
  for (const select of chosen) select.addEventListener("change", show);
  show();
}
