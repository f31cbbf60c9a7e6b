import type { AccessChange, Access as Lists } from "../api/types";
import { asFailure, useClient, useLoad } from "../api/use";
import { Failed, Loading } from "../parts/State";
import { toast } from "../parts/toast";
import { useMay } from "../api/session";
import { words } from "../words";

const w = words.settings.access;
const modes = ["credentials", "allow-list"] as const;
const lines = (text: string): string[] => text.split(/\s+/).filter(Boolean);

/** The repositories on which members may run agents. Each change is saved at once. */
export function Access() {
  const client = useClient();
  const admin = useMay("admin");
  const { data, failure, reload } = useLoad(client.access, []);
  const members = useLoad(client.members, []);
  const save = (change: AccessChange) => {
    client.updateAccess(change).then(
      () => toast(words.settings.saved),
      (e: unknown) => toast(asFailure(e).message, true),
    ).finally(reload);
  };
  const of = (id: number) => data?.members.find((m) => m.userId === id)?.repositories ?? [];
  const people = (members.data?.items ?? []).filter((u) => u.role === "member" && (admin || of(u.id).length > 0));
  return (
    <section className="card padded stack">
      <h2>{w.title}</h2>
      {!data && !failure && <Loading rows={2} />}
      {failure && !data && <Failed failure={failure} retry={reload} />}
      {data && (
        <>
          <div className="field">
            <label htmlFor="access-mode">{w.mode}</label>
            <select id="access-mode" className="input" disabled={!admin} aria-describedby="access-mode-hint" value={data.mode} onChange={(e) => save({ mode: e.target.value as Lists["mode"] })}>
              {modes.map((m) => (
                <option key={m} value={m}>
                  {w.modes[m]}
                </option>
              ))}
            </select>
            <span className="hint" id="access-mode-hint">
              {w.hints[data.mode]}
            </span>
          </div>
          {(admin || data.mode === "allow-list") && (
            <>
              <List id="access-everyone" label={w.everyone} value={data.everyone} may={admin} save={(everyone) => save({ everyone })} />
              {people.map((u) => (
                <List key={u.id} id={`access-${u.id}`} label={w.member(u.email ?? String(u.id))} value={of(u.id)} may={admin} save={(list) => save({ members: [{ userId: u.id, repositories: list }] })} />
              ))}
            </>
          )}
        </>
      )}
    </section>
  );
}

/** A list with one entry per line; it is saved when it loses the focus. */
function List({ id, label, value, may, save }: { id: string; label: string; value: readonly string[]; may: boolean; save: (list: string[]) => void }) {
  const text = value.join("\n");
  return (
    <div className="field">
      <label htmlFor={id}>{label}</label>
      <textarea
        key={text} id={id} className="input mono" rows={Math.max(2, Math.min(12, value.length + 1))} spellCheck={false} disabled={!may}
        defaultValue={text} aria-describedby={`${id}-hint`} onBlur={(e) => lines(e.target.value).join("\n") !== text && save(lines(e.target.value))}
      />
      <span className="hint" id={`${id}-hint`}>
        {w.lineHint}
      </span>
    </div>
  );
}
