package command

import (
	"os"
	"path/filepath"

	"github.com/spf13/pflag"
)

// Config holds the flags and variables of commands that connect to a server. No
// other code reads them. An API key is never a flag's value, because other
// users of the computer could see it.
type Config struct {
	URL     string // --url, ALOFT_URL
	KeyFile string // --api-key-file
	Key     string // ALOFT_API_KEY
	Data    string // ALOFT_DATA: the data folder of a server on this computer
	Login   string // the file of a saved login, below XDG_CONFIG_HOME
	JSON    bool   // --json
	NoColor bool   // --no-color, NO_COLOR
	Dumb    bool   // TERM=dumb
}

// NewConfig returns the configuration from the environment variables.
func NewConfig(getenv func(string) string) Config {
	return Config{
		URL:     getenv("ALOFT_URL"),
		Key:     getenv("ALOFT_API_KEY"),
		Data:    DataDir(getenv),
		Login:   filepath.Join(xdg(getenv, "XDG_CONFIG_HOME", ".config"), "login.json"),
		NoColor: getenv("NO_COLOR") != "",
		Dumb:    getenv("TERM") == "dumb",
	}
}

// AddFlags adds the flags that set c. The defaults come from the environment
// variables.
func (c *Config) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&c.URL, "url", c.URL, "`address` of the server (ALOFT_URL)")
	flags.StringVar(&c.KeyFile, "api-key-file", "", "`file` that holds the API key; or set ALOFT_API_KEY")
	flags.BoolVar(&c.JSON, "json", false, "print JSON")
	flags.BoolVar(&c.NoColor, "no-color", c.NoColor, "print without color (NO_COLOR)")
	if f := flags.Lookup("url"); f != nil {
		f.DefValue = "" // keep the help text independent of the environment
	}
	if f := flags.Lookup("no-color"); f != nil {
		f.DefValue = "false"
	}
}

// DataDir returns the default data folder of a server.
func DataDir(getenv func(string) string) string {
	if dir := getenv("ALOFT_DATA"); dir != "" {
		return dir
	}
	if os.Geteuid() == 0 {
		return "/var/lib/aloft"
	}
	return xdg(getenv, "XDG_DATA_HOME", ".local/share")
}

// xdg returns this program's folder in an XDG base directory.
func xdg(getenv func(string) string, name, standard string) string {
	if dir := getenv(name); filepath.IsAbs(dir) { // the XDG specification says to ignore relative paths
		return filepath.Join(dir, "aloft")
	}
	return filepath.Join(getenv("HOME"), standard, "aloft")
}
