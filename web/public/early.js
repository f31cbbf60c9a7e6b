// Requests what the page shows first while the page's own scripts are still being
// fetched. src/api/transport.ts takes over the replies. The paths are those that
// src/api/client.ts asks for: src/early.test.ts compares them.
(() => {
  const script = document.currentScript.dataset.agent; // "" in a page that is no build's
  if (!script || !localStorage.getItem("aloft.was-in")) return; // or nobody has signed in here
  const [page = "agents", id] = location.pathname.split("/").filter(Boolean);
  const paths = ["/v1/session"];
  if (page === "agents" && id === undefined) {
    const list = "/v1/agents?limit=100&includeArchived=false";
    paths.push(list, `${list}&status=asks`);
  } else if (page === "agents") {
    const agent = `/v1/agents/${id}`;
    paths.push(agent, `${agent}/journal`, `${agent}/events?last=60&pieces=false`);
    const link = document.createElement("link");
    link.rel = "modulepreload";
    link.href = script;
    document.head.append(link);
  }
  globalThis.aloftBegun = new Map();
  for (const path of paths) {
    const reply = fetch(path, { credentials: "same-origin", cache: "no-store", redirect: "error" });
    reply.catch(() => undefined); // the page reports it
    globalThis.aloftBegun.set(path, reply);
  }
})();
