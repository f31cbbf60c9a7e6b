import { memo } from "react";
import { shown } from "./clip";
import { useColours, type Coloured } from "./colour";

function piece(c: Coloured, i: number) {
  if (typeof c === "string") return c;
  return (
    <span key={i} className={c.look || undefined}>
      {c.of.map(piece)}
    </span>
  );
}

const Pieces = memo(function Pieces({ of }: { of: readonly Coloured[] }) {
  return <>{of.map(piece)}</>;
});

/** Code, highlighted if its language is known. */
export const Code = memo(function Code({ code, language }: { code: string; language: string }) {
  const { colours, rest } = useColours(shown(code), language);
  return (
    <>
      <Pieces of={colours} />
      {rest}
    </>
  );
});
