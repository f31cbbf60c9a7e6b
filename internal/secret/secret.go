// Package secret defines the secrets that users store on a server for their machines:
// names and owners, which secret takes precedence if several have the same name, and
// which secrets a build or an agent receives. Package safe of the control plane encrypts
// and stores the values; this package does not store them.
package secret

import (
	"crypto/rand"
	"encoding/hex"
	"regexp"
	"strings"
	"time"
	"unicode/utf8"

	"aloft/internal/fault"
)

// Type determines where a secret is used, and whether it may be shown.
type Type string

// Types of secrets.
const (
	Runtime  Type = "runtime_secret"       // in builds and agents; redacted from all output
	Variable Type = "environment_variable" // in builds and agents; may be shown
	Build    Type = "build_secret"         // only in builds; redacted from their output
)

// Kind is the kind of a secret's owner.
type Kind string

// Kinds of owners, in order of precedence: if several owners have a secret of the same
// name, the first kind wins.
const (
	OfAgent       Kind = "agent" // the envVars of the API call; deleted with the agent
	OfEnvironment Kind = "environment"
	OfPerson      Kind = "personal"
	OfTeam        Kind = "team"

	// OfForked is for secrets of the agents from which this agent was forked. Its machine
	// does not get these as variables, but its disk may contain them.
	OfForked Kind = "forked"

	OfWebhook Kind = "webhook" // the secret of an agent's webhook; in no machine

	// Secrets for MCP, which also are in no machine: servers configured by the team, a
	// user, or the request that created an agent, and the results of users' sign-ins.
	OfMCPTeam   Kind = "mcp_team"
	OfMCPPerson Kind = "mcp_personal"
	OfMCPAgent  Kind = "mcp_agent"
	OfMCPSignIn Kind = "mcp_sign_in"
	OfMCPVisit  Kind = "mcp_visit" // a sign-in in progress

	// The keys of models and git servers that admins have connected. They are in
	// no machine either.
	OfServer Kind = "server"
)

// Owner is the owner of a secret. ID is the id of an agent or an environment, a user's
// id in decimal, or the team's id.
type Owner struct {
	Kind Kind
	ID   string
}

// TheTeam is the only team of a server.
var TheTeam = Owner{OfTeam, "team"}

// Secret is a secret without its value.
type Secret struct {
	ID        string // secv_…; changes with each new value
	Name      string
	Type      Type
	Repos     []string // repositories whose machines get the secret, in the form of [Repo]; none means all
	Owner     Owner
	CreatedAt time.Time
}

// Sealed is a secret as stored: its value is encrypted with a data key, and a keeper has
// wrapped the data key.
type Sealed struct {
	Secret
	Keeper string // name of the keeper's key
	Key    []byte
	Box    []byte
}

// Limits. The total per machine is small because each byte of a secret to
// redact costs about 300 bytes of memory.
const (
	MaxName     = 255       // bytes
	MaxValue    = 32 << 10  // bytes
	MaxPerOwner = 200       // secrets
	MaxTotal    = 128 << 10 // bytes of all names and values in one machine
	MaxRepos    = 100       // of one secret
	MaxEnvVars  = 50        // of one API call
	MaxEnvVar   = 4096      // bytes of one value in envVars
)

// NamesVariable lists the names of the secrets in a machine's environment,
// separated by commas. exec-daemon redacts their values from its output.
const NamesVariable = "CLOUD_AGENT_INJECTED_SECRET_NAMES"

// RoleVariable is the secret with the AWS role that machines should get.
const RoleVariable = "CURSOR_AWS_ASSUME_IAM_ROLE_ARN"

// NewID returns a new id.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand crashes the process instead
	return "secv_" + hex.EncodeToString(b[:])
}

var namePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Fold returns the same form for all names that differ only in case.
func Fold(name string) string { return strings.ToUpper(name) }

// CheckName returns a fault for an invalid name. Variables that control a
// machine's network, or which of its secrets are hidden, cannot be set as
// secrets.
func CheckName(name string) error {
	if len(name) > MaxName || !namePattern.MatchString(name) {
		return fault.Invalid("%q is not the name of a secret", short(name)).At("name").
			Hint("letters, digits and _, not beginning with a digit, at most %d", MaxName)
	}
	switch folded := Fold(name); {
	case folded == "HTTP_PROXY", folded == "HTTPS_PROXY", folded == "ALL_PROXY",
		strings.HasPrefix(folded, "CURSOR_SANDBOX"), strings.HasPrefix(folded, "ALOFT_"), strings.HasPrefix(folded, "EXEC_DAEMON_"),
		strings.HasSuffix(folded, "_AGENT_INJECTED_SECRET_NAMES"):
		return fault.Invalid("%s is reserved: the machine sets it itself", name).At("name").Named("name_reserved").
			Hint("choose another name")
	}
	return nil
}

// short returns a name in a form that is safe to include in an error.
func short(name string) string {
	const most = 60
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}

// Check returns a fault for an invalid secret or value. No error repeats the
// value.
func Check(s Secret, value string) error {
	if err := CheckName(s.Name); err != nil {
		return err
	}
	switch s.Type {
	case Runtime, Variable, Build:
	default:
		return fault.Invalid("must be %s, %s or %s", Runtime, Variable, Build).At("type")
	}
	if len(s.Repos) > MaxRepos {
		return fault.Invalid("has %d repositories; at most %d are accepted", len(s.Repos), MaxRepos).At("repos")
	}
	for _, r := range s.Repos {
		if r == "" || r != Repo(r) || !strings.Contains(r, "/") {
			return fault.Invalid("%q does not name a repository", short(r)).At("repos").Hint("as github.com/team/app")
		}
	}
	if Fold(s.Name) == RoleVariable && !rolePattern.MatchString(value) {
		return fault.Invalid("is not the ARN of a role").At("value").Hint("as arn:aws:iam::123456789012:role/agents")
	}
	return checkValue(value, MaxValue, "value")
}

var rolePattern = regexp.MustCompile(`^arn:aws[a-z-]{0,20}:iam::[0-9]{12}:role/[A-Za-z0-9+=,.@_/-]{1,512}$`)

func checkValue(value string, most int, at string) error {
	switch {
	case value == "":
		return fault.Invalid("is empty").At(at)
	case len(value) > most:
		return fault.Invalid("has %d bytes; at most %d are accepted", len(value), most).At(at)
	case !utf8.ValidString(value) || strings.ContainsRune(value, 0):
		return fault.Invalid("must be text without NUL bytes").At(at).Hint("encode it in base64, and decode it where it is used")
	}
	return nil
}

// CheckEnvVars returns a fault for envVars that a machine cannot have.
func CheckEnvVars(vars map[string]string) error {
	if len(vars) > MaxEnvVars {
		return fault.Invalid("has %d variables; at most %d are accepted", len(vars), MaxEnvVars).At("envVars")
	}
	folded := make(map[string]string, len(vars))
	for name, value := range vars {
		at := "envVars." + short(name)
		if err := CheckName(name); err != nil {
			return fault.Of(err).At(at)
		}
		if strings.HasPrefix(Fold(name), "CURSOR_") {
			return fault.Invalid("%s is reserved: names beginning CURSOR_ or ALOFT_ are the machine's own", short(name)).
				At(at).Named("name_reserved").Hint("choose another name")
		}
		if other, taken := folded[Fold(name)]; taken {
			return fault.Invalid("%s and %s differ only in case", min(name, other), max(name, other)).At(at).Hint("keep one of them")
		}
		folded[Fold(name)] = name
		if err := checkValue(value, MaxEnvVar, at); err != nil {
			return err
		}
	}
	return nil
}

// Repo returns the canonical form of a repository's URL: host and path, without
// scheme, user, ".git" and other spelling differences.
func Repo(url string) string {
	s := strings.TrimSpace(url)
	if _, rest, ok := strings.Cut(s, "://"); ok {
		s = rest
	} else if host, path, ok := strings.Cut(s, ":"); ok && !strings.Contains(host, "/") {
		s = host + "/" + path // git@host:path
	}
	host, path, _ := strings.Cut(s, "/")
	host = host[strings.LastIndex(host, "@")+1:]
	path = strings.Trim(path, "/")
	for strings.HasSuffix(path, ".git") {
		path = strings.TrimRight(strings.TrimSuffix(path, ".git"), "/")
	}
	return strings.ToLower(strings.TrimRight(host+"/"+path, "/"))
}
