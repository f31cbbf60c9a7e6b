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

/** Code, in the colours of its language where that is known. */
export const Code = memo(function Code({ code, language }: { code: string; language: string }) {
  return <>{useColours(shown(code), language).map(piece)}</>;
});
