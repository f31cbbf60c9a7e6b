import type {
  AgentContext, AgentMcpServer, McpServer, McpTest, NewMcpServer,
  Automation, AutomationSpec, AutomationStart, AutomationState, Trial,
  Access, AccessChange, Agent, AgentSummary, ApiKey, Answer, Approval, Artifact, AuditEntry, Build, Ceremony, Checked, Committed, ConnectGitServer, Connected, ConnectModel, CreateAgent, CreatePullRequest, Desktop, Diff, Environment,
  EnvironmentChange, EnvironmentDetail, EnvironmentVersion, FileEntry, Fork, Invite, Invited, Journal, Me, Memories, Memory, Model, ModelRef, NewEnvironment, NewKey, Passkey,
  PasskeyAnswer, Preview, Prompt, Proposal, Proposed, ProposedPullRequest, PullRequest, PullRequestStatus, Queued, Retry, Role, Rule, Run, Secret, SecretType, Server, Settings, SignInLink, SignInRequest, SignedIn, Snapshot,
  DiskUsage, ListeningPort, TeamUsage, Terminal, Usage, User, VersionDiff, WrittenFile,
} from "./types";
import type { Find } from "./types";
import { Failure, lines, type Socket, type Transport } from "./transport";

type Page<T> = { items: T[]; nextCursor?: string };

/**
 * Headers that make a request idempotent: if it is repeated, the server returns the first response.
 */
const once = (key: string) => ({ "Idempotency-Key": key });

const pathIs = (path: string) => `path=${encodeURIComponent(path)}`;

const newest = "last=60&pieces=false"; // query for the number of events that fill the first screen
const screenful = "last=300&pieces=false"; // query for the number of events that fill several screens

const at = (...parts: string[]) => parts.map((p) => `/${encodeURIComponent(p)}`).join("");

const recentOf = (id: string) => `/v1/agents${at(id)}/events?${newest}`;

/** The owner of a secret: the user, the team, or an environment by its id. */
export type SecretOwner = "personal" | "team" | { environment: string };
const placeOfSecrets = (owner: SecretOwner) => (owner === "personal" ? "/secrets" : owner === "team" ? "/team/secrets" : `/environments${at(owner.environment)}/secrets`);

/** The part of JSON schema that is used here. */
export type Schema = { type?: string | string[]; description?: string; properties?: Record<string, Schema>; items?: Schema; anyOf?: Schema[]; enum?: unknown[]; examples?: unknown[] };

/** The part of the API that the dashboard uses, one line per operation. */
export class Client {
  constructor(private readonly transport: Transport) {}

  private get<T>(path: string): Promise<T> {
    return this.transport.json("GET", `/v1${path}`) as Promise<T>;
  }
  private send<T>(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<T> {
    return this.transport.json(method, `/v1${path}`, body, headers) as Promise<T>;
  }

  /** Prefetches the data that an agent's page needs first. */
  foresee(id: string): void {
    for (const path of [`/v1/agents${at(id)}`, `/v1/agents${at(id)}/journal`, recentOf(id)]) this.transport.ahead(path);
  }
  /** Drops prefetched data when the user signs out. */
  forget = () => this.transport.forget();

  session = () => this.get<SignedIn>("/session");
  signIn = (body: SignInRequest) => this.send<SignedIn>("POST", "/session", body);
  signOut = () => this.send("DELETE", "/session");
  beginPasskeySignIn = () => this.send<Ceremony>("POST", "/session/passkey");

  updateMe = (body: { email?: string; firstName?: string; lastName?: string }) => this.send<User>("PATCH", "/me/profile", body);
  setPassword = (password: string, current: string) => this.send("PUT", "/me/password", { password, ...(current ? { current } : {}) });
  passkeys = () => this.get<Page<Passkey>>("/me/passkeys");
  beginPasskey = () => this.send<Ceremony>("POST", "/me/passkey-ceremonies");
  addPasskey = (body: PasskeyAnswer) => this.send<Passkey>("POST", "/me/passkeys", body);
  removePasskey = (id: string) => this.send("DELETE", `/me/passkeys${at(id)}`);
  keys = () => this.get<Page<ApiKey>>("/me/keys");
  createKey = (name: string, expiresInDays?: number) => this.send<NewKey>("POST", "/me/keys", { name, ...(expiresInDays ? { expiresInDays } : {}) });
  deleteKey = (id: number) => this.send("DELETE", `/me/keys${at(String(id))}`);

  members = () => this.get<Page<User>>("/members");
  invite = (body: Invite) => this.send<Invited>("POST", "/members", body);
  updateMember = (id: number, body: { role?: Role; disabled?: boolean }) => this.send<User>("PATCH", `/members${at(String(id))}`, body);
  signInLink = (id: number) => this.send<SignInLink>("POST", `/members${at(String(id))}/link`);
  audit = (before?: number) => this.get<{ items: AuditEntry[]; nextBefore?: number }>(`/audit?limit=50${before ? `&before=${before}` : ""}`);
  diskUsage = () => this.get<DiskUsage>("/usage/disk");
  teamUsage = (from: string, to: string) => this.get<TeamUsage>(`/usage?from=${from}&to=${to}`);
  publishSkills = (text: string) => this.send<Rule>("POST", "/team/skills/publish", { text });
  memories = (repository: string) => this.get<Memories>(`/memories${repository ? `?repository=${encodeURIComponent(repository)}` : ""}`);
  updateMemory = (id: string, body: { revision: number; title: string; text: string }) => this.send<Memory>("PATCH", `/memories${at(id)}`, body);
  decideMemory = (id: string, revision: number, decision: "approve" | "reject") => this.send("POST", `/memories${at(id)}/${decision}`, { revision });
  deleteMemory = (id: string, revision: number) => this.send("DELETE", `/memories${at(id)}?revision=${revision}`);
  access = () => this.get<Access>("/repository-access");
  updateAccess = (body: AccessChange) => this.send<Access>("PATCH", "/repository-access", body);
  server = () => this.get<Server>("/server");
  connectModel = (id: string, body: ConnectModel) => this.send<Connected>("PUT", `/server/models${at(id)}`, body);
  disconnectModel = (id: string) => this.send("DELETE", `/server/models${at(id)}`);
  connectGitServer = (host: string, body: ConnectGitServer) => this.send<Connected>("PUT", `/server/git-servers${at(host)}`, body);
  disconnectGitServer = (host: string) => this.send("DELETE", `/server/git-servers${at(host)}`);
  settings = () => this.get<Settings>("/settings");
  updateSettings = (body: Partial<Settings>) => this.send<Settings>("PATCH", "/settings", body);

  me = () => this.get<Me>("/me");
  models = () => this.get<Page<Model>>("/models");
  repositories = () => this.get<Page<{ url: string }>>("/repositories");

  agents = ({ user, status, ...rest }: Find, cursor?: string) => {
    const q = new URLSearchParams({ limit: "100", includeArchived: String(status?.includes("archived") ?? false), ...rest });
    if (status) q.set("status", status);
    if (user !== undefined) q.set(user === "everybody" ? "all" : "user", user === "everybody" ? "true" : String(user));
    if (cursor) q.set("cursor", cursor);
    return this.get<Page<AgentSummary>>(`/agents?${q.toString()}`);
  };
  agent = (id: string) => this.get<Agent>(`/agents${at(id)}`);
  spawn = (body: CreateAgent, key: string) => this.send<{ agent: Agent; run: Run }>("POST", "/agents", body, once(key));
  followUp = (id: string, prompt: Prompt, key: string) => this.send<{ run: Run }>("POST", `/agents${at(id)}/runs`, { prompt }, once(key));
  queue = (id: string, prompt: Prompt, key: string, model?: ModelRef) => this.send<Queued>("POST", `/agents${at(id)}/queue`, { prompt, ...(model ? { model } : {}) }, once(key));
  unqueue = (id: string, runId: string) => this.send("DELETE", `/agents${at(id)}/queue${at(runId)}`);
  retry = (id: string, body: Retry, key: string) => this.send<{ run: Run }>("POST", `/agents${at(id)}/retry`, body, once(key));
  /** The URL of an image in an event. */
  image = (id: string, seq: number, n: number) => this.transport.source(`/v1/agents${at(id)}/events/${seq}/images/${n}`);
  fork = (id: string, body: Fork, key: string) => this.send<{ items: { agent: Agent }[] }>("POST", `/agents${at(id)}/fork`, body, once(key));
  cancel = (id: string, runId: string) => this.send("POST", `/agents${at(id)}/runs${at(runId)}/cancel`);
  rename = (id: string, name: string) => this.send("PATCH", `/agents${at(id)}`, { name });
  remove = (id: string) => this.send("DELETE", `/agents${at(id)}`);
  pause = (id: string) => this.send("POST", `/agents${at(id)}/pause`);
  resume = (id: string) => this.send("POST", `/agents${at(id)}/resume`);
  archive = (id: string) => this.send("POST", `/agents${at(id)}/archive`);
  unarchive = (id: string) => this.send("POST", `/agents${at(id)}/unarchive`);
  usage = (id: string) => this.get<Usage>(`/agents${at(id)}/usage`);
  diff = (id: string) => this.get<Diff>(`/agents${at(id)}/diff`);
  pullRequests = (id: string) => this.get<Page<PullRequestStatus>>(`/agents${at(id)}/pull-requests`);
  proposePullRequest = (id: string, repo: string) => this.get<ProposedPullRequest>(`/agents${at(id)}/pull-requests/proposal?${new URLSearchParams({ repoUrl: repo })}`);
  openPullRequest = (id: string, body: CreatePullRequest, key: string) => this.send<PullRequest>("POST", `/agents${at(id)}/pull-requests`, body, once(key));
  /** A summary of the agent's whole journal. */
  journal = (id: string) => this.get<Journal>(`/agents${at(id)}/journal`);
  /** The agent's newest events. */
  recent = (id: string, signal: AbortSignal) => lines(this.transport.pieces(recentOf(id), signal));
  /**
   * The agent's events after a sequence number, and future ones. An empty line
   * is a heartbeat of the server.
   */
  follow = (id: string, after: number, signal: AbortSignal) => lines(this.transport.pieces(`/v1/agents${at(id)}/events?follow=true&after=${after}`, signal));
  /**
   * The events before a sequence number. They begin at the start of a turn. Event is the type in
   * package journal, which uses this client.
   */
  async before<Event>(id: string, seq: number, signal: AbortSignal): Promise<Event[]> {
    const out: Event[] = [];
    for await (const line of lines(this.transport.pieces(`/v1/agents${at(id)}/events?before=${seq}&${screenful}`, signal))) if (line) out.push(JSON.parse(line) as Event);
    return out;
  }

  approvals = () => this.get<Page<Approval>>("/approvals");
  answer = (a: Approval, answer: Answer) => this.send("POST", `/agents${at(a.agentId)}/approvals${at(a.id)}`, answer);

  files = (id: string, path: string) => this.get<{ items: FileEntry[] }>(`/agents${at(id)}/files?${pathIs(path)}`);
  readFile = (id: string, path: string, signal?: AbortSignal) => this.transport.bytes(`/v1/agents${at(id)}/files/contents?digest=true&${pathIs(path)}`, signal);
  /**
   * Writes a file if its tag is unchanged. The tag "" requires that the file does not exist;
   * undefined means no condition.
   */
  writeFile = (id: string, path: string, contents: Blob, tag?: string) =>
    this.send<WrittenFile>("PUT", `/agents${at(id)}/files/contents?${pathIs(path)}`, contents, tag === undefined ? {} : tag === "" ? { "If-None-Match": "*" } : { "If-Match": `"${tag}"` });
  /** Writes a file as writeFile does, and reports upload progress. */
  upload = (id: string, path: string, contents: Blob, over: boolean, sent: (share: number) => void, signal: AbortSignal) =>
    this.transport.put(`/v1/agents${at(id)}/files/contents?${pathIs(path)}`, contents, over ? {} : { "If-None-Match": "*" }, sent, signal);
  createFolder = (id: string, path: string) => this.send("POST", `/agents${at(id)}/files/folders`, { path });
  moveFile = (id: string, from: string, to: string) => this.send("POST", `/agents${at(id)}/files/move`, { from, to });
  deleteFile = (id: string, path: string) => this.send("DELETE", `/agents${at(id)}/files?recursive=true&${pathIs(path)}`);
  /** The URL for downloading a file, or a folder as a tar archive. */
  fileURL = (id: string, path: string, folder: boolean) => `/v1/agents${at(id)}/files/${folder ? "archive" : "contents"}?${pathIs(path)}`;

  terminals = (id: string) => this.get<{ items: Terminal[] | null }>(`/agents${at(id)}/terminals`);
  pty = (id: string): Socket => this.transport.socket(`/v1/agents${at(id)}/pty`, "aloft.pty");
  artifacts = (id: string) => this.get<Page<Artifact>>(`/agents${at(id)}/artifacts`);
  /** A URL of an artifact that is valid for a few minutes. */
  artifact = async (id: string, path: string) => this.transport.source((await this.get<{ url: string }>(`/agents${at(id)}/artifacts/download?${pathIs(path)}`)).url);
  desktop = (id: string) => this.get<Desktop>(`/agents${at(id)}/desktop`);
  desktopSocket = (id: string): Socket => this.transport.socket(`/v1/agents${at(id)}/desktop/vnc`, "binary");
  ports = (id: string) => this.get<{ items: ListeningPort[] }>(`/agents${at(id)}/ports`);
  preview = (id: string, port: number) => this.send<Preview>("POST", `/agents${at(id)}/ports${at(String(port))}/preview`);

  automations = () => this.get<Page<Automation>>("/automations?limit=100");
  automation = (id: string) => this.get<Automation>(`/automations${at(id)}`);
  createAutomation = (spec: AutomationSpec, state: AutomationState) => this.send<Automation>("POST", "/automations", { spec, state });
  updateAutomation = (id: string, body: { spec?: AutomationSpec; state?: AutomationState; version?: number }) => this.send<Automation>("PATCH", `/automations${at(id)}`, body);
  deleteAutomation = (id: string) => this.send("DELETE", `/automations${at(id)}`);
  automationStarts = (id: string) => this.get<Page<AutomationStart>>(`/automations${at(id)}/starts?limit=100`);
  startAutomation = (id: string, inputs: Record<string, unknown>, later: boolean, key: string) => this.send<AutomationStart>("POST", `/automations${at(id)}/starts`, { inputs, later }, once(key));
  tryAutomation = (id: string, inputs: Record<string, unknown>, eventId: string) => this.send<Trial>("POST", `/automations${at(id)}/try`, { inputs, ...(eventId ? { eventId } : {}) });
  promoteStart = (id: string, startId: string) => this.send<AutomationStart>("POST", `/automations${at(id)}/starts${at(startId)}/promote`);
  cancelStart = (id: string, startId: string) => this.send<AutomationStart>("POST", `/automations${at(id)}/starts${at(startId)}/cancel`);
  environments = () => this.get<Page<Environment>>("/environments?limit=100");
  environment = (id: string) => this.get<EnvironmentDetail>(`/environments${at(id)}`);
  createEnvironment = (body: NewEnvironment, key: string) => this.send<EnvironmentDetail>("POST", "/environments", body, once(key));
  updateEnvironment = (id: string, body: EnvironmentChange) => this.send("PATCH", `/environments${at(id)}`, body);
  deleteEnvironment = (id: string) => this.send("DELETE", `/environments${at(id)}`);
  environmentHistory = (id: string) => this.get<Page<EnvironmentVersion>>(`/environments${at(id)}/history?limit=100`);
  /** The diff between two versions. If from is "", it is the version before to. */
  environmentDiff = (id: string, from: string, to: string) => this.get<VersionDiff>(`/environments${at(id)}/history/diff?${new URLSearchParams({ ...(from ? { from } : {}), to }).toString()}`);
  checkEnvironment = (environmentJson: string) => this.send<Checked>("POST", "/environment-check", { environmentJson });
  environmentSchema = () => this.get<Schema>("/environment-schema");
  snapshots = (environmentId: string) => this.get<Page<Snapshot>>(`/snapshots?limit=100&environmentId=${encodeURIComponent(environmentId)}`);
  deleteSnapshot = (id: string) => this.send("DELETE", `/snapshots${at(id)}`);

  saveDisk = (agent: string) => this.send<Proposal>("POST", `/agents${at(agent)}/snapshots`);
  /** The environment file that an agent has written and pushed. */
  proposedEnvironment = (agent: string) => this.get<Proposed>(`/agents${at(agent)}/environment`);
  commitEnvironment = (agent: string, environmentJson: string) => this.send<Committed>("POST", `/agents${at(agent)}/environment/commit`, { environmentJson });
  /** Builds an environment as a test, and passes the progress to news. */
  async tryEnvironment(agent: string, environmentJson: string, signal: AbortSignal, news: (line: string) => void): Promise<Build> {
    return this.built(this.transport.pieces(`/v1/agents${at(agent)}/environment/try`, signal, { environmentJson }), news);
  }

  builds = (id: string) => this.get<Page<Build>>(`/environments${at(id)}/builds?limit=100`);
  /** Starts a build, which continues in the background. */
  async startBuild(id: string, repo: string, again: boolean): Promise<void> {
    const over = new AbortController();
    const body = { again, ...(repo ? { repo } : {}) };
    for await (const line of lines(this.transport.pieces(`/v1/environments${at(id)}/builds`, over.signal, body))) {
      this.news(line);
      return over.abort();
    }
  }
  /** Parses a line of a build's progress, and throws the error if the line contains one. */
  private news(line: string): { news?: string; build?: Build } {
    const said = JSON.parse(line) as { news?: string; build?: Build; error?: { code: string; message: string } };
    if (said.error) throw new Failure(409, said.error.code, said.error.message);
    return said;
  }
  private async built(pieces: AsyncIterable<string>, news: (line: string) => void): Promise<Build> {
    for await (const line of lines(pieces)) {
      const said = this.news(line);
      if (said.build) return said.build;
      if (said.news) news(said.news);
    }
    throw new Failure(0, "cut", "the connection was cut; the build goes on");
  }
  cancelBuild = (id: string, build: string) => this.send("POST", `/environments${at(id)}/builds${at(build)}/cancel`);
  buildLog = (id: string, build: string, signal: AbortSignal) => this.transport.pieces(`/v1/environments${at(id)}/builds${at(build)}/log`, signal);

  mcpServers = () => this.get<Page<McpServer>>("/mcp-servers");
  addMcpServer = (server: NewMcpServer) => this.send<McpServer>("POST", "/mcp-servers", server);
  removeMcpServer = (id: string) => this.send("DELETE", `/mcp-servers${at(id)}`);
  testMcpServer = (id: string) => this.send<McpTest>("POST", `/mcp-servers${at(id)}/test`);
  beginMcpSignIn = (id: string) => this.send<{ authorizationUrl: string }>("POST", `/mcp-servers${at(id)}/sign-in`);
  endMcpSignIn = (id: string) => this.send("DELETE", `/mcp-servers${at(id)}/sign-in`);
  agentContext = (id: string) => this.get<AgentContext>(`/agents${at(id)}/context`);
  agentMcpServers = (id: string) => this.get<Page<AgentMcpServer>>(`/agents${at(id)}/mcp-servers`);
  beginAgentMcpSignIn = (id: string, name: string, approvalId = "") =>
    this.send<{ authorizationUrl: string }>("POST", `/agents${at(id)}/mcp-servers${at(name)}/sign-in`, approvalId ? { approvalId } : {});
  secrets = (environment = "") => this.get<Page<Secret>>(`/secrets?limit=100${environment ? `&environmentId=${encodeURIComponent(environment)}` : ""}`);
  putSecret = (owner: SecretOwner, name: string, value: string, type: SecretType) => this.send<Secret>("PUT", `${placeOfSecrets(owner)}${at(name)}`, { value, type });
  deleteSecret = (owner: SecretOwner, name: string) => this.send("DELETE", `${placeOfSecrets(owner)}${at(name)}`);
  externalId = () => this.get<{ externalId: string }>("/team/external-id");

  rule = (owner: "me" | "team", name: string) => this.get<Rule>(`/rules${at(owner, name)}`);
  putRule = (owner: "me" | "team", name: string, text: string) => this.send<Rule>("PUT", `/rules${at(owner, name)}`, { text });
}
