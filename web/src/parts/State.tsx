import type { ReactNode } from "react";
import type { Failure } from "../api/transport";
import { offline } from "../api/use";
import { words } from "../words";
import { Icon, type IconName } from "./Icon";

/** The empty state of a view; set top if it fills the page. */
export function Empty({ icon, title, top = false, children }: { icon: IconName; title: string; top?: boolean; children?: ReactNode }) {
  const Heading = top ? "h1" : "h2";
  return (
    <div className="empty">
      <Icon name={icon} />
      <Heading>{title}</Heading>
      {children}
    </div>
  );
}

export function Loading({ rows = 9 }: { rows?: number }) {
  return (
    <div className="skeleton" role="status" aria-label={words.state.loading}>
      {Array.from({ length: rows }, (_, i) => (
        <i key={i} />
      ))}
    </div>
  );
}

export function Failed({ failure, retry, top = false }: { failure: Failure; retry?: () => void; top?: boolean }) {
  return (
    <div role="alert">
      <Empty icon="warn" title={words.state.failed} top={top}>
        <p>{failure.message}</p>
        {retry && (
          <button type="button" className="button" onClick={retry}>
            {words.state.retry}
          </button>
        )}
      </Empty>
    </div>
  );
}

export function Problem({ children, tone = "red" }: { children: ReactNode; tone?: "red" | "amber" }) {
  return (
    <div className="alert" data-tone={tone} role="alert">
      <Icon name="warn" />
      <span>{children}</span>
    </div>
  );
}

export function OfflineBar() {
  if (!offline.use()) return null;
  return (
    <div className="bar-offline" role="status">
      <Icon name="warn" />
      {words.state.offline}
    </div>
  );
}
