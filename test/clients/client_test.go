package clients

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// client is a client that others wrote, and the script that uses it.
type client struct {
	name    string
	command []string
	// probe is a command that ends well where the client is there, hint what to do
	// where it is not.
	probe []string
	hint  string
	// limits are what the client cannot do with any server.
	limits []limit
}

// limit excuses checks of a client if they fail with Kubernetes' read path too.
type limit struct {
	checks *regexp.Regexp
	reason string
}

const python = "../../bin/venv/bin/python"

func clients() []client {
	return []client{
		{
			name: "curl", command: []string{"bash", "scripts/curl.sh"},
			probe: []string{"curl", "--version"}, hint: "there is no curl",
		},
		pythonClient("pycurl"),
		pythonClient("requests"),
		pythonClient("httpx"),
		pythonClient("aiohttp"),
		pythonClient("kubernetes"),
		{
			name: "node", command: []string{"node", "scripts/node.mjs"},
			probe: []string{"node", "--version"}, hint: "there is no Node",
		},
		{
			name:    "java",
			command: []string{"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "scripts/HttpClientChecks.java"},
			probe:   []string{"javac", "--version"}, hint: "there is no JDK",
		},
	}
}

func pythonClient(name string, limits ...limit) client {
	return client{
		name: name, command: []string{python, "scripts/" + name + "_checks.py"},
		probe: []string{python, "-c", "import " + name}, limits: limits,
		hint: "Python has no " + name + ": run make clients",
	}
}

// need skips a test whose client is not there.
func (c client) need(t *testing.T) {
	t.Helper()
	if err := c.missing(); err != nil {
		t.Skip(err)
	}
}

// missing says what is missing for the client, if anything is.
func (c client) missing() error {
	output, err := exec.Command(c.probe[0], c.probe[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s (%w: %s)", c.hint, err, lastLine(output))
	}
	return nil
}

func lastLine(output []byte) string {
	lines := strings.Split(strings.TrimSpace(string(output)), "\n")
	return lines[len(lines)-1]
}

// excuse is why a check may fail, or empty.
func (c client) excuse(check string) string {
	for _, l := range c.limits {
		if l.checks.MatchString(check) {
			return l.reason
		}
	}
	return ""
}

// environment is what scripts get to know.
func (s *side) environment(c client) []string {
	// A proxy or other authorities of the machine have no say.
	var all []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		if !strings.HasSuffix(strings.ToLower(name), "_proxy") && !strings.HasSuffix(name, "_CA_BUNDLE") && !strings.HasPrefix(name, "SSL_CERT_") {
			all = append(all, v)
		}
	}
	return append(all,
		"CLIENT_URL="+s.URL,
		"CLIENT_CA="+filepath.Join(s.DataDir, "pki", "ca.crt"),
		"CLIENT_TOKEN="+token,
		"CLIENT_WEAK_TOKEN="+weakToken,
		"CLIENT_NAMESPACE="+s.namespace(c),
		"CLIENT_LISTS=/api/v1/namespaces/"+listsNamespace+"/configmaps",
		"CLIENT_REPEAT="+repeat(),
		"PYTHONDONTWRITEBYTECODE=1",
	)
}
