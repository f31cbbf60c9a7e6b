// Package secret is what people entrust to a server for their machines: what a
// secret is called, whose it is, which of several with one name counts, and
// what of all that a build or an agent gets. Values pass through here and are
// kept nowhere: sealing and keeping them is the control plane's.
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

// Type is when a secret is in a machine, and whether it may be seen.
type Type string

// Types of secrets.
const (
	Runtime  Type = "runtime_secret"       // in builds and agents; taken out of whatever the machine says
	Variable Type = "environment_variable" // in builds and agents; no secret to the agent: it may be shown
	Build    Type = "build_secret"         // in builds only; taken out of what they say
)

// Kind is what kind of thing a secret belongs to.
type Kind string

// Kinds of owners, in the order in which they count: the first that has a name
// decides what it is.
const (
	OfAgent       Kind = "agent" // the call's own envVars; gone with the agent
	OfEnvironment Kind = "environment"
	OfPerson      Kind = "personal"
	OfTeam        Kind = "team"

	// OfForked is for values that were secret of the agents from which this one was
	// forked. They are in no variable of its machine, but may be on its disk.
	OfForked Kind = "forked"

	OfWebhook Kind = "webhook" // an agent's; it is in no machine

	// What MCP needs is in no machine either: servers as the team, a person or the
	// request that made an agent name them, and what people's sign-ins gave.
	OfMCPTeam   Kind = "mcp_team"
	OfMCPPerson Kind = "mcp_personal"
	OfMCPAgent  Kind = "mcp_agent"
	OfMCPSignIn Kind = "mcp_sign_in"
	OfMCPVisit  Kind = "mcp_visit" // a sign-in under way
)

// Owner is whose a secret is. ID is the agent's, the environment's, the user's
// in decimal, or the team's.
type Owner struct {
	Kind Kind
	ID   string
}

// TheTeam is the one team of a server.
var TheTeam = Owner{OfTeam, "team"}

// Secret is one secret without its value.
type Secret struct {
	ID        string // secv_…; another with each new value
	Name      string
	Type      Type
	Repos     []string // the repositories whose machines get it, as [Repo] writes them; none is all
	Owner     Owner
	CreatedAt time.Time
}

// Sealed is a secret as it is stored: its value under a key of its own, and
// that key under the keeper's.
type Sealed struct {
	Secret
	Keeper string // which keeper's
	Key    []byte
	Box    []byte
}

// Bounds. A machine's total is small because each byte of a secret that is
// looked for in what a machine says costs some 300 bytes of memory.
const (
	MaxName     = 255       // bytes
	MaxValue    = 32 << 10  // bytes
	MaxPerOwner = 200       // secrets
	MaxTotal    = 128 << 10 // bytes of all names and values in one machine
	MaxRepos    = 100       // of one secret
	MaxEnvVars  = 50        // of one call
	MaxEnvVar   = 4096      // bytes of one value of them
)

// NamesVariable lists, separated by commas, the secrets in a machine's
// environment: exec-daemon takes their values out of what it says.
const NamesVariable = "CLOUD_AGENT_INJECTED_SECRET_NAMES"

// RoleVariable is the secret that names an AWS role for machines to have.
const RoleVariable = "CURSOR_AWS_ASSUME_IAM_ROLE_ARN"

// NewID returns a fresh id.
func NewID() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails: crypto/rand ends the process instead
	return "secv_" + hex.EncodeToString(b[:])
}

var namePattern = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)

// Fold is the form of a name in which two that differ only in case are one.
func Fold(name string) string { return strings.ToUpper(name) }

// CheckName refuses what cannot be a secret's name. What decides how machines
// reach the network, and which of their secrets are hidden, is not to be had as
// a secret.
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

// short is a name that can be repeated in an error.
func short(name string) string {
	const most = 60
	if len(name) <= most {
		return name
	}
	return strings.ToValidUTF8(name[:most], "") + "…"
}

// Check refuses a secret that cannot be, with its value. No error repeats the
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

// CheckEnvVars refuses a call's envVars that a machine cannot have.
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

// Repo is the form of a repository's URL in which one repository has one name:
// host and path, without scheme, user, ".git" and what only looks different.
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
