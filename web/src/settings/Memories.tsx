import { useState } from "react";
import type { Memory } from "../api/types";
import { asFailure, useClient, useLoad } from "../api/use";
import { link } from "../route";
import { Failed, Loading, Problem } from "../parts/State";
import { toast } from "../parts/toast";
import { useMay } from "../api/session";
import { words } from "../words";

const w = words.settings.memories;

/** What agents have written down about repositories, for people to approve, edit and delete. */
export function Memories() {
  const client = useClient();
  const [repo, setRepo] = useState("");
  const { data, failure, loading, reload } = useLoad(() => client.memories(repo), [repo]);
  return (
    <section className="card padded stack" id="memories">
      <h2>{w.title}</h2>
      <p className="small muted">{w.lead}</p>
      {loading && !data && <Loading rows={2} />}
      {failure && !data && <Failed failure={failure} retry={reload} />}
      {data && data.repositories.length > 1 && (
        <div className="field">
          <label htmlFor="memory-repo">{w.repository}</label>
          <select id="memory-repo" className="input" value={repo} onChange={(e) => setRepo(e.target.value)}>
            <option value="">{w.all}</option>
            {data.repositories.map((r) => (
              <option key={r} value={r}>
                {r}
              </option>
            ))}
          </select>
        </div>
      )}
      {data && data.items.length === 0 && <p className="small faint">{w.none}</p>}
      {data?.items.map((m) => <One key={`${m.id} ${m.revision}`} memory={m} reload={reload} />)}
      {data?.truncated && <p className="small faint">{w.more}</p>}
    </section>
  );
}

function One({ memory: m, reload }: { memory: Memory; reload: () => void }) {
  const client = useClient();
  const may = useMay("member");
  const [draft, setDraft] = useState<{ title: string; text: string } | null>(null);
  const [problem, setProblem] = useState("");
  const act = (doing: Promise<unknown>) => {
    setProblem("");
    doing.then(
      () => {
        toast(words.settings.saved);
        reload();
      },
      (e: unknown) => setProblem(asFailure(e).message),
    );
  };
  const p = m.proposal;
  const title = m.title ?? p?.title ?? m.id;
  const author = p?.author.agentId ?? m.author.agentId;
  return (
    <div className="stack mcp-server" role="group" aria-label={title}>
      <div className="row wraps">
        <strong className="grow">{title}</strong>
        <span className="small muted">{m.repository}</span>
      </div>
      {draft ? (
        <>
          <div className="field">
            <label htmlFor={`${m.id}-title`}>{w.name}</label>
            <input id={`${m.id}-title`} className="input" maxLength={100} value={draft.title} onChange={(e) => setDraft({ ...draft, title: e.target.value })} />
          </div>
          <div className="field">
            <label htmlFor={`${m.id}-text`}>{w.text}</label>
            <textarea id={`${m.id}-text`} className="input" rows={4} value={draft.text} onChange={(e) => setDraft({ ...draft, text: e.target.value })} />
          </div>
        </>
      ) : (
        m.text && <p className="small memory-text">{m.text}</p>
      )}
      {p && !draft && (
        <>
          <p className="small muted">{w.proposals[p.action]}</p>
          {p.text && (
            <blockquote className="small memory-text">
              {p.title !== title && <strong>{p.title}</strong>} {p.text}
            </blockquote>
          )}
        </>
      )}
      {problem && <Problem>{problem}</Problem>}
      <div className="row wraps">
        {author && (
          <a className="small grow" {...link({ page: "agent", id: author, tab: "conversation" })}>
            {w.author}
          </a>
        )}
        {may && draft && (
          <>
            <button type="button" className="button small" onClick={() => act(client.updateMemory(m.id, { revision: m.revision, ...draft }))}>
              {w.save}
            </button>
            <button type="button" className="button small quiet" onClick={() => setDraft(null)}>
              {words.environments.discard}
            </button>
          </>
        )}
        {may && !draft && (
          <>
            {p && (
              <>
                <button type="button" className="button small" onClick={() => act(client.decideMemory(m.id, m.revision, "approve"))}>
                  {w.approve}
                </button>
                <button type="button" className="button small quiet" onClick={() => act(client.decideMemory(m.id, m.revision, "reject"))}>
                  {w.reject}
                </button>
              </>
            )}
            <button type="button" className="button small quiet" onClick={() => setDraft({ title: m.title ?? p?.title ?? "", text: m.text ?? p?.text ?? "" })}>
              {w.edit}
            </button>
            <button type="button" className="button small quiet" onClick={() => confirm(w.sure(title)) && act(client.deleteMemory(m.id, m.revision))}>
              {w.remove}
            </button>
          </>
        )}
      </div>
    </div>
  );
}
