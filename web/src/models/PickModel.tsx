import { useState } from "react";
import { useClient, useLoad } from "../api/use";
import { Dialog } from "../parts/Dialog";
import { Loading, Problem } from "../parts/State";
import { words } from "../words";
import { nameOf, type Choice } from "./choice";
import { ModelFields } from "./ModelFields";

const w = words.models;

/** Asks for the model that the agent uses from its next prompt on. */
export default function PickModel({ now, done, close }: { now: Choice; done: (choice: Choice, name: string) => void; close: () => void }) {
  const models = useLoad(useClient().models, []);
  const [picked, set] = useState<Choice>();
  const items = models.data?.items ?? [];
  const choice = picked ?? (now.id ? now : { id: items[0]?.id ?? "", params: {} });
  return (
    <Dialog title={w.title} close={close}>
      <form
        onSubmit={(e) => {
          e.preventDefault();
          done(choice, nameOf(items, choice));
        }}
      >
        <div className="body">
          <p className="muted">{w.lead}</p>
          {models.loading ? <Loading rows={2} /> : <div className="form-grid"><ModelFields models={items} choice={choice} set={set} /></div>}
          {models.failure && <Problem>{models.failure.message}</Problem>}
        </div>
        <footer>
          <span className="grow" />
          <button type="button" className="button quiet" onClick={close}>
            {words.spawn.cancel}
          </button>
          <button type="submit" className="button first" disabled={!choice.id}>
            {w.use}
          </button>
        </footer>
      </form>
    </Dialog>
  );
}
