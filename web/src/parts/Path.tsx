import { shownName } from "./clip";

/**
 * A path on one line. If there is no room, its folder is truncated, not its name.
 * Each part is isolated and runs from left to right, so that letters of one part
 * cannot change the order of the others.
 */
export function Path({ path, className = "" }: { path: string; className?: string }) {
  const parts = path.split("/");
  const name = parts.pop() ?? "";
  return (
    <span className={`path ${className}`} dir="ltr" title={shownName(path)}>
      {parts.length > 0 && (
        <span className="path-folder cut">
          {parts.map((part, i) => (
            <span key={i}>
              <bdi dir="ltr">{shownName(part)}</bdi>/
            </span>
          ))}
        </span>
      )}
      <bdi className="path-name cut" dir="ltr">
        {shownName(name)}
      </bdi>
    </span>
  );
}
