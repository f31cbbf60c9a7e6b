import { useState } from "react";
import { useClient, useLoad } from "../api/use";
import type { Automation } from "../api/types";
import { useMay } from "../api/session";
import { shownLine } from "../parts/clip";
import { Icon } from "../parts/Icon";
import { Empty, Failed, Loading } from "../parts/State";
import { repoName } from "../parts/status";
import { link } from "../route";
import { words } from "../words";
import { Editor } from "./Editor";
import { tones, when } from "./spec";

const w = words.automations;

/** The automations that the user may see. */
export default function Automations() {
  const client = useClient();
  const may = useMay("member");
  const [adding, add] = useState(false);
  const { data, failure, loading, reload } = useLoad(client.automations, [], 15_000);
  return (
    <>
      <header className="top">
        <h1 className="grow">{words.nav.automations}</h1>
        {may && (
          <button type="button" className="button small" aria-label={w.add} onClick={() => add(true)}>
            <Icon name="plus" />
            <span className="wide-hint">{w.add}</span>
          </button>
        )}
      </header>
      <div className="scroll">
        {loading ? (
          <Loading />
        ) : failure && !data ? (
          <Failed failure={failure} retry={reload} />
        ) : data?.items.length === 0 ? (
          <Empty icon="clock" title={w.none}>
            <p>{w.noneLead}</p>
          </Empty>
        ) : (
          <ul className="wide list">{data?.items.map((a) => <Row key={a.id} of={a} />)}</ul>
        )}
      </div>
      {adding && <Editor close={() => add(false)} />}
    </>
  );
}

function Row({ of }: { of: Automation }) {
  return (
    <li className="card line">
      <Icon name="clock" />
      <a className="grow" {...link({ page: "automations", id: of.id })}>
        <strong className="cut" dir="auto">
          {shownLine(of.spec.name)}
        </strong>
        <span className="muted small cut">{[repoName(of.spec.repository ?? ""), when(of.spec)].filter(Boolean).join(" · ")}</span>
      </a>
      <span className="badge" data-tone={tones[of.state]}>
        {w.state[of.state]}
      </span>
    </li>
  );
}
