import type { Call } from "../journal/entry";
import { address } from "../changes/pulls";
import { clipLine, shownLine } from "../parts/clip";
import { words } from "../words";
import { plain } from "./plain";
import { success, text } from "../parts/call";
import type { Tool } from "./tool";

export type Page = { title: string; url: string; snippet: string };

const most = 20; // maximum number of pages that are shown

/** The pages that a web search found. It drops URLs that are not web pages. */
export function pagesOf(c: Call): Page[] | undefined {
  const list = success(c)?.["references"];
  if (!Array.isArray(list)) return undefined;
  const pages: Page[] = [];
  for (const p of list.slice(0, most) as (Record<string, unknown> | null)[]) {
    const url = address(text(p?.["url"]));
    if (url) pages.push({ title: text(p?.["title"]) || url, url, snippet: text(p?.["snippet"]) });
  }
  return pages;
}

/** A search on the web. */
export const search: Tool = {
  icon: "search",
  subject: (c) => shownLine(clipLine(text(c.args["search_term"]))),
  outcome: (c) => {
    const pages = pagesOf(c);
    return pages ? words.tools.pages(pages.length) : "";
  },
  body: (c) => {
    const pages = pagesOf(c);
    if (!pages?.length) return plain.body(c);
    return (
      <ul className="found pages" role="region" aria-label={words.tools.output} tabIndex={0}>
        {pages.map((p) => (
          <li key={p.url}>
            <a href={p.url} title={p.url} target="_blank" rel="noreferrer noopener nofollow" dir="auto">
              {shownLine(clipLine(p.title))}
            </a>
            <div className="small muted found-path">{shownLine(clipLine(p.url))}</div>
            <p dir="auto">{shownLine(p.snippet, 1_000)}</p>
          </li>
        ))}
      </ul>
    );
  },
};
