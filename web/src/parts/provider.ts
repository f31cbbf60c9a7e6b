import { words } from "../words";
import { toast } from "./toast";
import { shownLine } from "./clip";

const w = words.mcp;

/** goTo opens a provider's sign-in page. It refuses addresses that are not https or http. */
export function goTo(address: string) {
  if (!/^https?:\/\//.test(address)) throw new Error(w.notDone);
  location.assign(address);
}

/** cameBack returns the outcome of a sign-in from the page's URL, once. */
export function cameBack() {
  const q = new URLSearchParams(location.search);
  const how = q.get("mcp");
  if (!how) return;
  const name = shownLine((q.get("mcp-server") ?? "").slice(0, 64));
  toast(how === "signed-in" ? w.done(name) : (w.ended[how] ?? w.notDone), how !== "signed-in");
  history.replaceState(history.state, "", location.pathname + location.hash);
}
