import { memo } from "react";
import { ansi } from "./ansi";

/** A program's output with its colors. */
export const Ansi = memo(function Ansi({ text }: { text: string }) {
  return (
    <>
      {ansi(text).map((s, i) => (
        <span key={i} className={s.look ? s.look.replace(/\w+/g, "ansi-$&") : undefined}>
          {s.text}
        </span>
      ))}
    </>
  );
});
