import { spawn, spawnSync, type ChildProcess } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";

const aloft = join(import.meta.dirname, "../../bin/aloft");

/** A port to come back to after a kill: not one of those (from 32768) that the kernel gives to who asks for any. */
const anyPort = () => 20_000 + Math.floor(Math.random() * 12_000);

/** A real server, with machines and the scripted model, and a repository of its own. */
export class Server {
  readonly dir = mkdtempSync(join(tmpdir(), "aloft-browser-"));
  readonly repo = join(this.dir, "slug.git");
  private child?: ChildProcess;
  private port = anyPort();
  url = "";
  link = "";

  /** What it said when it started. */
  said = "";

  /** Starts one; script, unless empty, is what its model plays, and git more lines of the configuration's git. */
  static async start(script = "", git = ""): Promise<Server> {
    if (!existsSync(aloft)) throw new Error("bin/aloft is not there: run make build");
    const s = new Server();
    s.makeRepo();
    writeFileSync(join(s.dir, "script.yaml"), script);
    const model = script ? `models: [{id: scripted, provider: scripted, script: ${join(s.dir, "script.yaml")}}]\n` : "";
    writeFileSync(join(s.dir, "aloft.yaml"), `git:\n  allow_file: [${JSON.stringify(s.dir)}]\n${git}${model}`);
    await s.first();
    return s;
  }

  /** Starts the server at a port that nobody has. */
  private async first(): Promise<void> {
    for (let tries = 0; ; tries++) {
      try {
        return await this.up();
      } catch (e) {
        if (tries === 5 || !String(e).includes("address already in use")) throw e;
        this.port = anyPort();
      }
    }
  }

  /** Starts the server, and waits until it listens. */
  async up(): Promise<void> {
    const child = spawn(aloft, ["serve", "--config", join(this.dir, "aloft.yaml"), "--data", join(this.dir, "data"), "--listen", `127.0.0.1:${this.port}`], {
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.child = child;
    let said = "";
    let log = "";
    child.stdout.on("data", (d: Buffer) => (said += d.toString()));
    child.stderr.on("data", (d: Buffer) => (log = (log + d.toString()).slice(-8_000)));
    for (;;) {
      if (child.exitCode !== null) throw new Error(`the server does not start:\n${log}`);
      this.url = `http://localhost:${this.port}`;
      if (said.includes(` listens at http://127.0.0.1:${this.port}\n`) && (await fetch(`${this.url}/healthz`).then((r) => r.ok, () => false))) break;
      await new Promise((r) => setTimeout(r, 20));
    }
    // The link is printed before the server accepts requests.
    this.said = said;
    this.link = /^Sign in at (\S+)$/m.exec(said)?.[1] ?? "";
  }

  /** Kills the server, as a power cut would. */
  async kill(): Promise<void> {
    const child = this.child;
    if (!child || child.exitCode !== null) return;
    const gone = new Promise((r) => child.once("exit", r));
    child.kill("SIGKILL");
    await gone;
  }

  /** Writes an empty file into an agent's workspace; the status says whether it is there. */
  async write(agent: string, path: string): Promise<number> {
    const reply = await fetch(`${this.url}/v1/agents/${agent}/files/contents?path=${path}`, { method: "PUT", headers: { Authorization: `Bearer ${this.key()}` }, body: "" });
    return reply.status;
  }

  key(): string {
    return readFileSync(join(this.dir, "data", "admin.key"), "utf8").trim();
  }

  /** Removes what is left: machines first, which outlive a server that is killed. */
  async close(): Promise<void> {
    const api = async (method: string, path: string) => (await fetch(this.url + path, { method, headers: { Authorization: `Bearer ${this.key()}` } })).json();
    const { items } = (await api("GET", "/v1/agents")) as { items: { id: string }[] };
    for (const { id } of items) await api("DELETE", `/v1/agents/${id}`);
    const child = this.child;
    if (child) {
      const gone = new Promise((r) => child.once("exit", r));
      child.kill("SIGTERM");
      await gone;
    }
    rmSync(this.dir, { recursive: true });
  }

  /** The sample project of the demonstration, as a bare repository. */
  private makeRepo(): void {
    const work = join(this.dir, "slug");
    const run = (...args: string[]) => {
      const done = spawnSync(args[0] ?? "", args.slice(1), { encoding: "utf8" });
      if (done.status !== 0) throw new Error(`${args.join(" ")}: ${done.stderr}`);
    };
    run("cp", "-r", join(import.meta.dirname, "../../internal/cli/host/demo/sample"), work);
    run("git", "init", "-q", "-b", "main", work);
    run("git", "-C", work, "add", "-A");
    run("git", "-C", work, "-c", "user.name=Ada", "-c", "user.email=ada@example.com", "commit", "-q", "-m", "Make slugs of titles");
    run("git", "clone", "-q", "--bare", work, this.repo);
  }
}
