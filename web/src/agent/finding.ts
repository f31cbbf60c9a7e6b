import { useCallback, useEffect, useMemo, useRef, useState, type RefObject } from "react";
import type { Follower } from "../journal/follow";
import { useKey } from "../keys";
import { failuresOf, hitsOf, startsOf, stepFrom } from "./find";

/** A row to which the conversation scrolls. focus is whether the row gets the focus; n distinguishes repeated
 * jumps. */
export type Target = { key: string; n: number; focus: boolean };

/** The state of the tools that search a conversation. */
export type Finding = {
  open: boolean;
  setOpen: (open: boolean) => void;
  text: string;
  setText: (text: string) => void;
  hits: readonly number[];
  /** The index of the current match in hits, or -1. */
  hit: number;
  failures: readonly number[];
  target: Target | undefined;
  /** The first and the last visible row; the conversation sets them. */
  sight: RefObject<[number, number]>;
  all: boolean | undefined;
  foldAll: () => void;
  jump: (index: number, focus?: boolean) => void;
  step: (what: "hit" | "failure" | "start", back: boolean) => void;
  /** Starts or stops loading the whole conversation. */
  loadAll: (on: boolean) => void;
};

/** turnIn returns the turn's number in a URL fragment, such as #turn-12. */
export const turnIn = (hash: string): number => Number(/^#turn-(\d+)$/.exec(hash)?.[1] ?? 0);

/**
 * useFinding searches the conversation of a follower. active is set while the conversation is
 * shown.
 */
export function useFinding(follower: Follower, active: boolean): Finding {
  const { entries } = follower.transcript;
  const revision = follower.outline();
  const [open, setOpen] = useState(false);
  const [text, setText] = useState("");
  const [target, setTarget] = useState<Target>();
  const [all, setAll] = useState<boolean>();
  const [whole, loadAll] = useState(false);
  const [turn, setTurn] = useState(() => (typeof location === "undefined" ? 0 : turnIn(location.hash)));
  const sight = useRef<[number, number]>([0, 0]);
  const searched = open ? text : "";
  const hits = useMemo(() => hitsOf(entries, searched), [entries, searched, revision]); // eslint-disable-line react-hooks/exhaustive-deps -- entries change in place
  const failures = useMemo(() => failuresOf(entries), [entries, revision]); // eslint-disable-line react-hooks/exhaustive-deps -- the same

  const { more, older } = follower;
  useEffect(() => {
    if (active && more && (searched.trim() || whole || turn > 0)) older();
  }, [active, more, older, searched, whole, turn, revision]);

  const jump = useCallback((index: number, focus = true) => setTarget((old) => ({ key: follower.transcript.entries[index]?.key ?? "", n: (old?.n ?? 0) + 1, focus })), [follower]);
  const at = target ? entries.findIndex((e) => e.key === target.key) : -1;
  const step = (what: "hit" | "failure" | "start", back: boolean) => {
    const [first, last] = sight.current;
    const from = at >= first && at <= last ? at : back ? last + 1 : first - 1;
    const to = stepFrom(what === "hit" ? hits : what === "failure" ? failures : startsOf(entries), from, back);
    if (to !== undefined) jump(to, what !== "hit");
  };

  useEffect(() => {
    const changed = () => setTurn(turnIn(location.hash));
    addEventListener("hashchange", changed);
    return () => removeEventListener("hashchange", changed);
  }, []);
  useEffect(() => {
    if (turn === 0 || !follower.whole) return;
    const line = entries.findIndex((e) => e.kind === "turn" && e.no === turn);
    if (line < 0 && more) return; // the part that contains the turn is still being loaded
    setTurn(0);
    if (line >= 0) jump(startsOf(entries).findLast((i) => i <= line) ?? line);
  }, [turn, entries, more, revision, follower, jump]);

  const foldAll = () => setAll((old) => (old === false ? undefined : false));
  useKey("mod+f", () => setOpen(true), active && !open);
  useKey("/", () => {
    setOpen(true);
    document.querySelector<HTMLElement>(".find-bar input")?.focus();
  }, active);
  useKey("f", () => step("failure", true), active && failures.length > 0);
  useKey("F", () => step("failure", false), active && failures.length > 0);
  useKey("j", () => step("start", false), active);
  useKey("k", () => step("start", true), active);
  useKey("c", foldAll, active);
  return { open, setOpen, text, setText, hits, hit: hits.indexOf(at), failures, target, sight, all, foldAll, jump, step, loadAll };
}
