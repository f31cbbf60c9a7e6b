package e2e

import (
	"encoding/json"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"aloft/internal/control/gateway/gittest"
	"aloft/internal/need"
)

// A web application with PostgreSQL and Redis, in the style of public projects.
// HOST is the registry of its images.
var servicesProject = map[string]string{
	".cursor/environment.json": `{"user": "ubuntu", "install": "sh up.sh && sudo docker-compose pull -q && sudo docker-compose build", "start": "sh up.sh && sudo docker-compose up -d",
  "terminals": [{"name": "logs", "command": "sudo docker-compose logs -f web"}]}`,
	"up.sh":      "sudo service docker start\nfor i in $(seq 300); do sudo docker info >/dev/null 2>&1 && exit; sleep 0.1; done; exit 1\n",
	"Dockerfile": "FROM HOST/team/python:3\nWORKDIR /app\nCOPY app.py .\nCMD [\"python3\", \"app.py\"]\n",
	"docker-compose.yml": `version: "3"
services:
  db:
    image: HOST/team/postgres:15
    environment: {POSTGRES_DB: shop}
    volumes: ["db:/data"]
  cache:
    image: HOST/team/redis:7
    command: [redis-server, --bind, 0.0.0.0, --protected-mode, "no", --dir, /data, --appendonly, "yes", --appendfsync, always]
    volumes: ["cache:/data"]
  web:
    build: .
    environment: {DATABASE_URL: "postgresql://postgres@db/shop", REDIS_HOST: cache}
    ports: ["8080:8000"]
    depends_on: [db, cache]
    restart: unless-stopped
volumes: {db: {}, cache: {}}
`,
	"app.py": `import http.server, json, os, urllib.parse
import psycopg2, redis

db = psycopg2.connect(os.environ["DATABASE_URL"])
db.autocommit = True
db.cursor().execute("CREATE TABLE IF NOT EXISTS orders (id serial PRIMARY KEY, name text)")
cache = redis.Redis(os.environ["REDIS_HOST"])
cache.ping()

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        url = urllib.parse.urlparse(self.path)
        cursor = db.cursor()
        if url.path == "/order":
            cursor.execute("INSERT INTO orders (name) VALUES (%s)", (url.query,))
            cache.incr("orders")
        cursor.execute("SELECT name FROM orders ORDER BY id")
        body = json.dumps({"orders": [row[0] for row in cursor], "counted": int(cache.get("orders") or 0)}).encode()
        self.send_response(200)
        self.end_headers()
        self.wfile.write(body)

http.server.ThreadingHTTPServer(("", 8000), Handler).serve_forever()
`,
}

// startPostgres is the entry point of the image with PostgreSQL.
const startPostgres = `set -e
cd /; PATH=$(echo /usr/lib/postgresql/*/bin):$PATH
if [ ! -e /data/db/PG_VERSION ]; then
	mkdir -p /data/db; chown postgres /data/db
	su postgres -c "$(command -v initdb) -D /data/db" && echo "host all all all trust" >> /data/db/pg_hba.conf
	su postgres -c "echo CREATE DATABASE $POSTGRES_DB | $(command -v postgres) --single -D /data/db postgres"
fi
exec su postgres -c "exec $(command -v postgres) -D /data/db -c listen_addresses='*' -c unix_socket_directories=/tmp"
`

// TestDockerServices builds the environment of a project with Compose, whose
// images come from a private registry. Its services start in each machine; their
// data survives sleep and is part of forks.
func TestDockerServices(t *testing.T) {
	t.Parallel()
	image := dockerImage(t)
	services, err := filepath.Abs("../../.bin/services-image")
	if err != nil {
		t.Fatal(err)
	}
	need.Command(t, "mmdebstrap")
	if out, err := exec.Command("../../hack/debian-image.sh", services, "python3-psycopg2", "python3-redis", "postgresql", "redis-server").CombinedOutput(); err != nil {
		t.Fatalf("make the image: %v\n%s", err, out)
	}
	host := privateRegistry(t)
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	var files []string // without what the services do not need, which would take most of the test's time
	for _, unused := range []string{"usr/share/doc", "usr/share/locale", "usr/share/i18n", "usr/share/man", "usr/lib/git-core", "*/bitcode", "*/libLLVM*", "*/libz3*", "var/cache", "var/lib/apt", "var/lib/postgresql", "dev"} {
		files = append(files, "--exclude=./"+unused)
	}
	pushImages(t, host, archive(t, services, append(files, ".")...), map[string]v1.Config{
		"team/python:3":    {Env: env},
		"team/postgres:15": {Env: env, Entrypoint: []string{"sh", "-c", startPostgres}},
		"team/redis:7":     {Env: env},
	})
	git := gittest.New(t)
	project := map[string]string{}
	for name, text := range servicesProject {
		project[name] = strings.ReplaceAll(text, "HOST", host)
	}
	url := git.Repo("shop", project)
	ip, _, _ := net.SplitHostPort(host)
	a := start(t, strings.NewReplacer("HOST", host, "IP", ip, "TOKEN", registryToken, "IMAGE", image).Replace(
		scripted(t, forkScript)+`
images:
  insecure: ["HOST"]
  credentials: [{host: "HOST", username: robot, token: TOKEN, machines: [{images: team/*}]}]
machine:
  image: "rootfs:IMAGE"
  docker: true
  idle_minutes: 0.05
  egress: {open: [IP/32]}
`))
	r := a.finish(a.create(url, "Begin", nil))
	type shop struct {
		Orders  []string
		Counted int
	}
	get := func(agentID, path string) (s shop) {
		t.Helper()
		out := a.output("agent", "exec", agentID, "--", "sh", "-c", "cd /workspace; for i in $(seq 600); do curl -fsS http://127.0.0.1:8080"+path+" 2>/dev/null && exit; sleep 0.1; done; sudo docker-compose ps; sudo docker-compose logs")
		if err := json.Unmarshal([]byte(out), &s); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		return s
	}
	is := func(agentID, what string, orders ...string) {
		t.Helper()
		if s := get(agentID, "/"); strings.Join(s.Orders, " ") != strings.Join(orders, " ") || s.Counted != len(orders) {
			t.Errorf("%s: the services have %+v, want %q", what, s, orders)
		}
	}
	get(r.AgentID, "/order?tea")
	is(r.AgentID, "at first", "tea")
	a.machineIs(r.AgentID, "hibernated")
	is(r.AgentID, "after it woke", "tea")
	_, runs := a.fork(r.AgentID, object{"n": 1, "prompt": object{"text": "Try it"}})
	fork := a.finish(runs[0])
	get(fork.AgentID, "/order?cake")
	get(r.AgentID, "/order?milk")
	is(fork.AgentID, "the fork", "tea", "cake")
	is(r.AgentID, "beside the fork", "tea", "milk")
	if events := a.events(r.AgentID); !strings.Contains(events, `"layer":"bld-`) {
		t.Errorf("the agent did not start from a build:\n%s", events)
	}
}
