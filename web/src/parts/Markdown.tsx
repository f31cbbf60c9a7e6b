import { lexer, type Token, type Tokens } from "marked";
import { memo, useMemo, useRef, type ReactNode } from "react";
import { words } from "../words";
import { clip, shown, shownProse } from "./clip";
import { Code } from "./Code";
import { Copy } from "./Copy";

/**
 * Markdown as React elements only: it never becomes HTML, so HTML in it is shown as text. Links
 * lead only to http, https and mail addresses, and show their target. Images are not fetched; only
 * their address is shown.
 *
 * Each block has its own text direction, and code runs from left to right, so that the first word
 * does not determine the direction of the whole message.
 */
export const Markdown = memo(function Markdown({ text, live = false }: { text: string; live?: boolean }) {
  const read = useRef<Read>(nothing);
  const tokens = useMemo(() => {
    try {
      read.current = live ? goOn(read.current, text.slice(0, longest)) : { tokens: lexer(text.slice(0, longest), { gfm: true }), settled: 0, length: 0 };
      const headings = read.current.tokens.filter((t) => t.type === "heading") as Tokens.Heading[];
      const least = Math.min(...headings.map((h) => h.depth));
      for (const h of headings) Object.assign(h, { level: h.depth - least + 2 }); // level 1 is the page's title
      return read.current.tokens;
    } catch {
      return undefined;
    }
  }, [text, live]);
  if (!tokens) return <pre className="plain">{clip(text, longest)}</pre>;
  return (
    <div className="markdown">
      {tokens.map((t, i) => (
        <Block key={i} token={t} />
      ))}
      {text.length > longest && <pre className="plain">{clip(text.slice(longest), longest)}</pre>}
    </div>
  );
});

/**
 * The parsed state of a growing text: its tokens, and how many of the tokens and characters are
 * final.
 */
type Read = { tokens: Token[]; settled: number; length: number; prefix?: string };
const nothing: Read = { tokens: [], settled: 0, length: 0, prefix: "" };

/** Parses text that was appended: all blocks but the last two are final. */
function goOn(before: Read, text: string): Read {
  const from = before.prefix !== undefined && text.startsWith(before.prefix) ? before : nothing;
  const tokens = [...from.tokens.slice(0, from.settled), ...lexer(text.slice(from.length), { gfm: true })];
  const settled = Math.max(from.settled, tokens.length - 2);
  const prefix = (from.prefix ?? "") + tokens.slice(from.settled, settled).map((t) => t.raw).join("");
  if (!text.startsWith(prefix)) return { tokens, settled: 0, length: 0, prefix: "" }; // the text is not the previous one with an addition
  return { tokens, settled, length: prefix.length, prefix };
}

/** A block, rendered again only after it was parsed again. */
const Block = memo(function Block({ token }: { token: Token }) {
  return block(token, 0, 1);
});

const longest = 100_000; // characters
const deepest = 24;

const safe = (href: string): string | undefined => (/^(https?:\/\/|mailto:)/i.test(href) ? href : undefined);

function blocks(tokens: readonly Token[] | undefined, depth: number): ReactNode[] {
  if (depth > deepest) return (tokens ?? []).map((t, i) => plain(t.raw, i));
  return (tokens ?? []).map((t, i) => block(t, i, depth + 1));
}

function block(token: Token, key: number, depth: number): ReactNode {
  const t = token as Tokens.Generic;
  switch (t.type) {
    case "space":
    case "def":
      return null;
    case "heading": {
      return (
        <p key={key} className={`heading h${t["depth"]}`} role="heading" aria-level={Math.min(6, Number(t["level"] ?? 6))} dir="auto">
          {spans(t.tokens, depth)}
        </p>
      );
    }
    case "paragraph":
      return <p key={key} dir="auto">{spans(t.tokens, depth)}</p>;
    case "text":
      return t.tokens ? <span key={key}>{spans(t.tokens, depth)}</span> : plain(t.raw, key);
    case "code":
      return <Fenced key={key} code={String(t["text"])} language={String(t["lang"] ?? "").split(/\s/)[0]?.toLowerCase() ?? ""} />;
    case "blockquote":
      return <blockquote key={key}>{blocks(t.tokens, depth)}</blockquote>;
    case "hr":
      return <hr key={key} />;
    case "list": {
      const l = t as Tokens.List;
      const items = l.items.map((item, i) => (
        <li key={i} className={item.task ? "task" : undefined}>
          {item.task && (
            <span className="tick" role="img" aria-label={item.checked ? words.markdown.done : words.markdown.open}>
              {item.checked ? "☑" : "☐"}
            </span>
          )}
          {blocks(item.tokens, depth)}
        </li>
      ));
      return l.ordered ? (
        <ol key={key} dir="auto" start={l.start === "" ? 1 : l.start}>
          {items}
        </ol>
      ) : (
        <ul key={key} dir="auto">{items}</ul>
      );
    }
    case "table": {
      const table = t as Tokens.Table;
      return (
        <div key={key} className="table" role="region" aria-label={words.markdown.table} tabIndex={0}>
          <table>
            <thead>
              <tr>{table.header.map((c, i) => <th key={i} dir="auto">{spans(c.tokens, depth)}</th>)}</tr>
            </thead>
            <tbody>
              {table.rows.map((row, i) => (
                <tr key={i}>{row.map((c, j) => <td key={j} dir="auto">{spans(c.tokens, depth)}</td>)}</tr>
              ))}
            </tbody>
          </table>
        </div>
      );
    }
  }
  return plain(t.raw, key);
}

const plain = (text: string, key: number) => <span key={key}>{shownProse(text)}</span>;

function spans(tokens: readonly Token[] | undefined, depth: number): ReactNode[] {
  if (depth > deepest) return (tokens ?? []).map((t, i) => plain(t.raw, i));
  return (tokens ?? []).map((token, i) => {
    const t = token as Tokens.Generic;
    switch (t.type) {
      case "strong":
        return <strong key={i}>{spans(t.tokens, depth + 1)}</strong>;
      case "em":
        return <em key={i}>{spans(t.tokens, depth + 1)}</em>;
      case "del":
        return <del key={i}>{spans(t.tokens, depth + 1)}</del>;
      case "codespan":
        return <code key={i} dir="ltr">{shown(String(t["text"]))}</code>;
      case "br":
        return <br key={i} />;
      case "escape":
        return plain(String(t["text"]), i);
      case "text":
        return t.tokens ? <span key={i}>{spans(t.tokens, depth + 1)}</span> : plain(entities(String(t["text"])), i);
      case "link": {
        const href = safe(String(t["href"]));
        if (!href) return plain(t.raw, i);
        return (
          <a key={i} href={href} title={shown(href)} target="_blank" rel="noreferrer noopener nofollow">
            {spans(t.tokens, depth + 1)}
          </a>
        );
      }
      case "image":
        return (
          <span key={i} className="faint">
            {shown(words.markdown.image(String(t["text"]), String(t["href"])))}
          </span>
        );
    }
    return plain(t.raw, i); // HTML as well, as text
  });
}

const named: Record<string, string> = { "&amp;": "&", "&lt;": "<", "&gt;": ">", "&quot;": '"', "&#39;": "'" };
const entities = (text: string) => text.replace(/&(?:amp|lt|gt|quot|#39);/g, (e) => named[e] ?? e);

function Fenced({ code, language }: { code: string; language: string }) {
  return (
    <div className="fenced">
      <Copy text={code} />
      <pre dir="ltr" tabIndex={0}>
        <code>
          <Code code={code} language={language} />
        </code>
      </pre>
    </div>
  );
}
