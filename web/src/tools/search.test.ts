import { expect, test } from "vitest";
import type { Call } from "../journal/entry";
import { pagesOf, search } from "./search";

const found = (references: unknown, args: unknown = { search_term: "go synctest" }) => ({ args, result: { success: { references } }, text: "", images: [] }) as unknown as Call;

test("the pages of a web search are listed", () => {
  const c = found([{ title: "A page", url: "https://example.com/a", snippet: "words" }, { url: "https://example.com/b" }]);
  expect(pagesOf(c)).toEqual([{ title: "A page", url: "https://example.com/a", snippet: "words" }, { title: "https://example.com/b", url: "https://example.com/b", snippet: "" }]);
  expect(search.subject(c)).toBe("go synctest");
  expect(search.outcome?.(c)).toBe("2 pages");
});

test("an address that is no web page is not linked", () => {
  expect(pagesOf(found([{ title: "x", url: "javascript:alert(1)" }, { url: "data:text/html,x" }, null, 7, "x", { url: { a: 1 } }]))).toEqual([]);
  for (const references of [null, "x", { a: 1 }, undefined]) expect(search.outcome?.(found(references))).toBe("");
  expect(search.subject(found([], {}))).toBe("");
});
