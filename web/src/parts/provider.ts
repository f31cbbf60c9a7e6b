import { words } from "../words";
import { toast } from "./toast";

const w = words.mcp;

/** goTo sends the browser to a provider's page, where one signs in, and to no address that is none. */
export function goTo(address: string) {
  if (!/^https?:\/\//.test(address)) throw new Error(w.notDone);
  location.assign(address);
}

/** cameBack tells once how a sign-in ended, which the address says. */
export function cameBack() {
  const q = new URLSearchParams(location.search);
  const how = q.get("mcp");
  if (!how) return;
  const name = (q.get("mcp-server") ?? "").slice(0, 64);
  toast(how === "signed-in" ? w.done(name) : (w.ended[how] ?? w.notDone), how !== "signed-in");
  history.replaceState(history.state, "", location.pathname + location.hash);
}
