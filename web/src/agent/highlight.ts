import { placesIn } from "./find";

const most = 500; // maximum number of highlighted matches, far more than are visible at once

type Registry = { set(name: string, h: unknown): void; delete(name: string): void };
const registry = (): Registry | undefined => (typeof CSS !== "undefined" && "highlights" in CSS && typeof Highlight !== "undefined" ? (CSS.highlights as unknown as Registry) : undefined);

/** rangesIn returns the ranges in an element's text that match another text, ignoring case. */
export function rangesIn(element: Element, text: string): Range[] {
  const wanted = text.trim().toLowerCase();
  if (!wanted) return [];
  const nodes: [node: Text, from: number][] = [];
  let all = "";
  const walk = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  for (let node = walk.nextNode(); node; node = walk.nextNode()) {
    nodes.push([node as Text, all.length]);
    all += (node as Text).data;
  }
  const at = (place: number, end: boolean): [Text, number] | undefined => {
    const found = nodes.findLast(([, from]) => (end ? from < place : from <= place));
    return found && [found[0], place - found[1]];
  };
  return placesIn(all, wanted, most).flatMap(([from, to]) => {
    const [start, end] = [at(from, false), at(to, true)];
    if (!start || !end) return [];
    const range = new Range();
    range.setStart(...start);
    range.setEnd(...end);
    return [range];
  });
}

/** Highlights a text in an element without changing the document; "" removes the highlights. */
export function highlight(element: Element | null, text: string): void {
  const ranges = element && text ? rangesIn(element, text) : [];
  if (ranges.length > 0) registry()?.set("found", new Highlight(...ranges));
  else registry()?.delete("found");
}
