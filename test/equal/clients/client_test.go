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

// client is a client library or program, with the script that uses it.
type client struct {
	name    string
	command []string
	// probe is a command that succeeds if the client is installed. hint says
	// how to install it.
	probe  []string
	hint   string
	limits []limit
}

// limit excuses checks that fail in a certain way for a reason in the client.
type limit struct {
	checks, errors *regexp.Regexp
	reason         string
	// byChance is set if the failure is random, so that one run with the stock
	// server would prove nothing. Otherwise the check must fail with
	// Kubernetes' read path too.
	byChance bool
}

// limitsOfHTTPX returns what httpx cannot do with any server.
func limitsOfHTTPX() []limit {
	closed := regexp.MustCompile("ConnectionTerminated|Server disconnected|ConnectionState.CLOSED")
	return []limit{
		{
			checks: regexp.MustCompile("^early: .*B, .*HTTP/2"), errors: regexp.MustCompile("ReadTimeout"),
			reason: "it sends the whole body before it looks at an answer",
		},
		{
			checks: regexp.MustCompile("^(early: 401.*HTTP/2|goaway: |restart: )"), errors: closed, byChance: true,
			reason: "it gives up requests when a connection is told to go away",
		},
	}
}

func limitOfHTTP1() limit {
	return limit{
		checks: regexp.MustCompile("^restart: requests"), byChance: true,
		errors: regexp.MustCompile("^AssertionError: [1-4] of .*(RemoteDisconnected|Server disconnected|Connection reset by peer|Broken pipe)"),
		reason: "over HTTP/1.1 a request may cross the end of a connection that rested, and it does not send it again",
	}
}

func limitsOfJava() []limit {
	return []limit{
		{
			checks: regexp.MustCompile("^early: .*B, .*HTTP/2"), errors: regexp.MustCompile("request timed out"),
			reason: "it sends the whole body before it looks at an answer",
		},
		{
			checks: regexp.MustCompile("^early: .*MB.*HTTP/1.1"), errors: regexp.MustCompile("received no bytes"), byChance: true,
			reason: "it sends the whole body before it looks at an answer",
		},
		{
			checks: regexp.MustCompile("^(early: 40[13].*HTTP/2|goaway: |restart: )"), errors: regexp.MustCompile("GOAWAY received|IOException: closed$|request timed out"), byChance: true,
			reason: "it gives up all requests of a connection that is told to go away, or waits for their answers",
		},
		{
			checks: regexp.MustCompile("^streams: "), errors: regexp.MustCompile("too many concurrent streams"), byChance: true,
			reason: "it neither waits for a stream nor always opens another connection",
		},
	}
}

const python = "../../../bin/venv/bin/python"

func clients() []client {
	return []client{
		{
			name: "curl", command: []string{"bash", "scripts/curl.sh"},
			probe: []string{"curl", "--version"}, hint: "there is no curl",
		},
		pythonClient("pycurl"),
		pythonClient("requests", limitOfHTTP1()),
		pythonClient("httpx", limitsOfHTTPX()...),
		pythonClient("aiohttp", limitOfHTTP1()),
		pythonClient("kubernetes", limitOfHTTP1()),
		{
			name: "node", command: []string{"node", "scripts/node.mjs"},
			probe: []string{"node", "--version"}, hint: "there is no Node",
		},
		{
			name:    "java",
			command: []string{"java", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "scripts/HttpClientChecks.java"},
			probe:   []string{"javac", "--version"}, hint: "there is no JDK", limits: limitsOfJava(),
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

// need skips the test if the client is not installed.
func (c client) need(t *testing.T) {
	t.Helper()
	if err := c.missing(); err != nil {
		t.Skip(err)
	}
}

// missing returns an error that says what is not installed, or nil.
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

// excuse returns the limit that explains a failure, or nil.
func (c client) excuse(check, err string) *limit {
	for i, l := range c.limits {
		if l.checks.MatchString(check) && l.errors.MatchString(err) {
			return &c.limits[i]
		}
	}
	return nil
}

// environment returns the environment variables of the client's scripts.
func (s *side) environment(c client) []string {
	// Proxies and certificate authorities of the machine must not have any
	// effect.
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
