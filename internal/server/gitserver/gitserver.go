// Package gitserver is the part of the server's configuration for git servers:
// their credentials and their forges.
package gitserver

import "fmt"

// Config configures access to repositories.
type Config struct {
	Credentials []Credential `yaml:"credentials"`
	AllowFile   FileRoots    `yaml:"allow_file"` // folders in which file:// URLs may name repositories
	// Dependencies lists URL prefixes, such as https://github.com/acme, of
	// repositories that may be used as submodules and repositoryDependencies.
	// If absent, repositories of the same owner are allowed; [] allows none.
	Dependencies []string `yaml:"dependencies"`
	LFSHosts     []string `yaml:"lfs_hosts"` // hosts outside public networks that may serve LFS objects
	AuthorName   string   `yaml:"author_name"`
	AuthorEmail  string   `yaml:"author_email"`
	// Notes makes the server write a git note for each commit of an agent, and
	// push the notes to refs/notes/aloft.
	Notes bool `yaml:"notes"`
}

// Credential is a credential for all repositories below a URL.
type Credential struct {
	URL      string `yaml:"url"` // URL prefix; the longest matching prefix wins
	Username string `yaml:"username"`
	Token    string `yaml:"token"`
	TokenEnv string `yaml:"token_env"`
	// TokenFile is a file with the token, relative to the configuration's folder.
	TokenFile string `yaml:"token_file"`
	// Forge is the host's API: github, gitlab, gitea (also for Forgejo) or none.
	Forge     string            `yaml:"forge"`
	API       string            `yaml:"api"`       // address of the API, if it is not the default
	Reviewers map[string]string `yaml:"reviewers"` // logins at the host, by e-mail address in Aloft
	// App is a GitHub App, which creates one-hour tokens instead of a fixed one.
	App App `yaml:"app"`
}

// App is a GitHub App.
type App struct {
	ID      string `yaml:"id"`       // app id or client id
	Key     string `yaml:"key"`      // private key from GitHub, in PEM
	KeyEnv  string `yaml:"key_env"`  // or the environment variable with the key
	KeyFile string `yaml:"key_file"` // or the file with the key, relative to the configuration's folder
}

// Check validates the configuration.
func (c Config) Check() error {
	for i, cred := range c.Credentials {
		if err := cred.checkApp(fmt.Sprintf("git.credentials[%d]", i)); err != nil {
			return err
		}
	}
	if err := c.AllowFile.check(); err != nil {
		return err
	}
	_, err := c.GatewayCredentials()
	return err
}

// checkApp validates the App. at is the credential's key in the configuration.
func (c Credential) checkApp(at string) error {
	switch {
	case c.App == App{}:
	case c.App.ID == "" || c.App.Key == "":
		return fmt.Errorf("%s.app: id and key are required", at)
	case c.Token != "" || c.Username != "":
		return fmt.Errorf("%s: give a token or an app, not both: an app creates tokens, for the user x-access-token", at)
	}
	return nil
}
