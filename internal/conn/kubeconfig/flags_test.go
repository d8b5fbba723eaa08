package kubeconfig_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/millrace/millrace/internal/conn/kubeconfig"
)

const good = `apiVersion: v1
kind: Config
current-context: one
contexts:
- {name: one, context: {cluster: one, user: u}}
- {name: two, context: {cluster: two, user: u}}
clusters:
- {name: one, cluster: {server: "https://one.example:6443"}}
- {name: two, cluster: {server: "https://two.example:6443"}}
users:
- {name: u, user: {token: secret}}
`

func write(t *testing.T, file, text string) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// dataDir makes what Lookup wants of the data directory of a server.
func dataDir(t *testing.T, dir string) string {
	t.Helper()
	for _, name := range []string{"pki/ca.crt", "controller-manager.kubeconfig", "scheduler.kubeconfig"} {
		write(t, filepath.Join(dir, name), "")
	}
	write(t, filepath.Join(dir, "admin.kubeconfig"), strings.ReplaceAll(good, "one.example", "admin.example"))
	return dir
}

func parse(t *testing.T, deliberate bool, args ...string) *kubeconfig.Flags {
	t.Helper()
	f := &kubeconfig.Flags{Deliberate: deliberate}
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	set.SetOutput(io.Discard)
	f.AddTo(set)
	f.AddServer(set)
	f.AddDataDir(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}

// TestWhichServer checks the order in which kubeconfigs are looked for.
func TestWhichServer(t *testing.T) {
	dir := t.TempDir()
	file, other, data := write(t, filepath.Join(dir, "a"), good), write(t, filepath.Join(dir, "b"), strings.ReplaceAll(good, "one.example", "b.example")), dataDir(t, filepath.Join(dir, "data"))
	for _, c := range []struct {
		args, variable string
		deliberate     bool
		host           string
	}{
		{args: "--kubeconfig=" + file, variable: other, host: "https://one.example:6443"},
		{args: "--kubeconfig=" + file + " --context=two", host: "https://two.example:6443"},
		{args: "--kubeconfig=" + file + " --server=10.0.0.1:7443", host: "10.0.0.1:7443"},
		{args: "--kubeconfig=" + file + " --data-dir=" + data, host: "https://one.example:6443"},
		{args: "--data-dir=" + data, variable: other, host: "https://admin.example:6443"},
		{variable: other, host: "https://b.example:6443"},
		{variable: filepath.Join(dir, "none") + ":" + other, host: "https://b.example:6443"},
		{variable: other, deliberate: true, host: "https://b.example:6443"},
	} {
		t.Setenv("KUBECONFIG", c.variable)
		config, err := parse(t, c.deliberate, strings.Fields(c.args)...).Load("x")
		if err != nil || config.Host != c.host || config.BearerToken != "secret" || config.UserAgent != "millrace-x" {
			t.Errorf("%q with $KUBECONFIG=%s: got %v, %v, want %s", c.args, c.variable, config, err, c.host)
		}
	}
}

// TestDefaultDirectory runs in a directory with a data directory: that is the last resort.
func TestDefaultDirectory(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	t.Chdir(t.TempDir())
	_, err := parse(t, true).Load("x")
	if err == nil || !strings.Contains(err.Error(), "start `millrace serve` first or give --kubeconfig") {
		t.Errorf("got %v", err)
	}
	dataDir(t, "millrace-data")
	if config, err := parse(t, true).Load("x"); err != nil || config.Host != "https://admin.example:6443" {
		t.Errorf("got %v, %v", config, err)
	}
}

// TestErrors checks that each says in one line what to do.
func TestErrors(t *testing.T) {
	t.Setenv("KUBECONFIG", "")
	dir := t.TempDir()
	for name, c := range map[string]struct {
		text, args string
		want       []string
	}{
		"missing":       {args: "--kubeconfig=" + dir + "/none", want: []string{dir + "/none: no such file", "give another --kubeconfig"}},
		"directory":     {args: "--kubeconfig=" + dir, want: []string{"is a directory", "give another --kubeconfig"}},
		"empty":         {text: " ", want: []string{"has no cluster", "give another --kubeconfig"}},
		"no YAML":       {text: "a: [\n", want: []string{"yaml", "give another --kubeconfig"}},
		"no kubeconfig": {text: "kind: Pod\napiVersion: v1\n", want: []string{"give another --kubeconfig"}},
		"no context":    {text: good, args: "--context=three", want: []string{`no context "three", but one, two`, "give another --context"}},
		"none chosen":   {text: strings.ReplaceAll(good, "current-context: one", ""), want: []string{"no current context, but one, two", "--context"}},
		"no cluster":    {text: strings.ReplaceAll(good, "cluster: one,", "cluster: three,"), want: []string{`the cluster of the context "one" is not in it`}},
		"no file":       {text: strings.ReplaceAll(good, `6443"}`, `6443", certificate-authority: none.crt}`), want: []string{"none.crt", "give another --kubeconfig"}},
		"no PEM":        {text: strings.ReplaceAll(good, `6443"}`, `6443", certificate-authority-data: aGVsbG8=}`), want: []string{"give another --kubeconfig"}},
		"no address":    {text: good, args: "--server=https://a:b:c", want: []string{"https://a:b:c", "https://10.0.0.1:6443"}},
	} {
		t.Run(name, func(t *testing.T) {
			args := strings.Fields(c.args)
			if c.text != "" {
				args = append(args, "--kubeconfig="+write(t, filepath.Join(t.TempDir(), "kubeconfig"), c.text))
			}
			_, err := parse(t, false, args...).Load("x")
			for _, want := range c.want {
				if err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n") {
					t.Errorf("got %v, want one line with %q", err, want)
				}
			}
		})
	}
}

func TestSelect(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "kubeconfig"), strings.ReplaceAll(good, `6443"}`, `6443", certificate-authority: ca.crt}`))
	config, err := (&kubeconfig.Flags{Kubeconfig: file, Context: "two"}).Select()
	if err != nil {
		t.Fatal(err)
	}
	if want := filepath.Join(filepath.Dir(file), "ca.crt"); len(config.Clusters) != 1 || config.Clusters["two"].CertificateAuthority != want {
		t.Errorf("got %v, want the cluster two with %s", config.Clusters, want)
	}
	if _, err := (&kubeconfig.Flags{Kubeconfig: file, Context: "three"}).Select(); err == nil || !strings.Contains(err.Error(), "give another --context") {
		t.Errorf("got %v", err)
	}
}
