import { Icon } from "../parts/Icon";
import { words } from "../words";
import { notices, setNotices } from "./notices";

const w = words.notices;

/** The switch for browser notifications about agents that need a person. */
export function NoticesSwitch() {
  const now = notices.use();
  return (
    <label className="switch">
      <input type="checkbox" checked={now === "on"} disabled={now === "denied" || now === "away"} onChange={(e) => void setNotices(e.target.checked)} />
      <span>
        {w.name}
        <span className="hint">{w.hint[now]}</span>
      </span>
    </label>
  );
}

/** Offers notifications to users who have not decided about them. */
export function NoticesOffer() {
  const now = notices.use();
  if (now !== "off" || Notification.permission !== "default") return null;
  return (
    <button type="button" className="button small" onClick={() => void setNotices(true)}>
      <Icon name="bell" /> {w.offer}
    </button>
  );
}
