package e2e

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/millrace/millrace/test/support/harness"
)

// mistake is a command that cannot do its work, and what it says of that.
type mistake struct {
	args string
	want string
}

// TestToolsExplainMistakes gives every command kubeconfigs that cannot be used, servers that do
// not let it do its work, disks that are full and logs that are cut off. Each says so in one
// line, and exits with another code than 0.
func TestToolsExplainMistakes(t *testing.T) {
	t.Parallel()
	s := harness.Start(t, harness.ShortTempDir(t))
	dir := t.TempDir()
	log, stranger := slowLog(t), strangerKubeconfig(t, s, dir)
	files := map[string]string{"LOG": log, "OK": s.Kubeconfig(), "STRANGER": stranger, "DIR": dir, "PORT": fmt.Sprint(harness.FreePort(t))}
	for name, text := range map[string]string{
		"EMPTY": "", "TEXT": "not a kubeconfig\n", "NOBODY": kubeconfigOf("https://127.0.0.1:1"), "NOLOG": "half a li", "HALF": cut(t, log, false), "GZIP": cut(t, log, true),
	} {
		files[name] = writeFile(t, filepath.Join(dir, strings.ToLower(name)), text)
	}
	commands := []string{
		"top --once", "fill --pods=1", "hollow --nodes=1 --duration=1s", "hollow --delete", "fill --delete", "verify --duration=1s", "verify --delete", "replay LOG",
		"analyze profile",
	}
	var all []mistake
	for _, c := range []string{"bench watch --workloads=names-1000 --scale=0.02 --duration=1s", "bench list --workloads=nodes-json --requests=1"} {
		all = append(all, mistake{c + " --at=OK --at-context=other", "give another --at-context"})
	}
	all = append(all, mistake{"bench list --workloads=nodes-json --requests=1 --pods=0 --at=STRANGER", ""})
	for _, c := range commands {
		all = append(all, mistake{c + " --kubeconfig=OK --context=other", "give another --context"}, mistake{c + " --kubeconfig=STRANGER", ""})
	}
	all = append(all,
		mistake{"fill --pods=1 --kubeconfig=DIR/none", "give another --kubeconfig"}, mistake{"hollow --kubeconfig=EMPTY", "give another --kubeconfig"},
		mistake{"fill --pods=1 --kubeconfig=NOBODY", "127.0.0.1:1"}, mistake{"verify --kubeconfig=NOBODY", "127.0.0.1:1"},
		mistake{"replica --kubeconfig=TEXT", "give another --kubeconfig"},
		mistake{"replica --kubeconfig=NOBODY --secure-port=PORT", "127.0.0.1:1"},
		mistake{"analyze NOLOG", "no audit events"}, mistake{"replay NOLOG --kubeconfig=OK", "--audit-log-path"},
		mistake{"analyze DIR/none", "no such file"},
		mistake{"fill --profile=TEXT --kubeconfig=OK", "analyze profile"},
		mistake{"analyze LOG --report=/dev/full", "no space left"},
		mistake{"replay LOG --kubeconfig=OK --duration=100ms --report=/dev/full", "no space left"},
		mistake{"verify --kubeconfig=OK --duration=500ms --report=/dev/full", "no space left"},
		mistake{"serve --data-dir=/dev/full/data", "/dev/full/data"},
		mistake{"replica --kubeconfig=OK --secure-port=PORT --data-dir=/dev/full/data", "/dev/full"},
	)
	for _, m := range all {
		t.Run(m.args, func(t *testing.T) {
			t.Parallel()
			out, code := harness.Run(t, expand(m.args, files)...)
			// All of it is one line, but for what top says of the rights that it needs.
			line := lastLine(out)
			if strings.HasPrefix(m.args, "top") {
				line, _, _ = strings.Cut(out, "\n")
			}
			if code == 0 || !isError(line) || !strings.Contains(line, m.want) {
				t.Errorf("code %d, last line %q, want %q in it", code, line, m.want)
			}
		})
	}
	for _, args := range []string{
		"analyze LOG", "replay LOG --kubeconfig=OK --duration=100ms -o json", "verify --kubeconfig=OK --duration=500ms", "hollow --kubeconfig=OK --nodes=1 --duration=100ms -o json",
		"fill --kubeconfig=OK --nodes=1", "analyze profile --kubeconfig=OK", "top --once --kubeconfig=OK", "version",
	} {
		t.Run(args+" on a full disk", func(t *testing.T) {
			t.Parallel()
			toFull(t, expand(args, files))
		})
	}
	for _, args := range []string{"analyze HALF", "analyze GZIP", "replay HALF --kubeconfig=OK --duration=100ms", "replay GZIP --kubeconfig=OK --duration=100ms"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			if out, code := harness.Run(t, expand(args, files)...); code != 3 || !strings.Contains(out, ": lost: ") {
				t.Errorf("code %d, want 3, or nothing of the log's end: %s", code, out)
			}
		})
	}
}

// expand puts names of files into arguments.
func expand(args string, files map[string]string) (all []string) {
	for arg := range strings.FieldsSeq(args) {
		for name, file := range files {
			if before, found := strings.CutSuffix(arg, name); found && (before == "" || strings.HasSuffix(before, "=")) {
				arg = before + file
			} else if before, after, found := strings.Cut(arg, name+"/"); found {
				arg = before + file + "/" + after
			}
		}
		all = append(all, arg)
	}
	return all
}

// toFull runs a command whose standard output is a full disk.
func toFull(t *testing.T, args []string) {
	t.Helper()
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	var said bytes.Buffer
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env, cmd.Stdout, cmd.Stderr = append(os.Environ(), harness.AsProgram), full, &said
	if err := cmd.Run(); err == nil || !strings.Contains(lastLine(said.String()), "no space left on device") {
		t.Errorf("%v, and it says %q", err, lastLine(said.String()))
	}
}

// kubeconfigOf leads to an address, without a user.
func kubeconfigOf(address string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"Config","current-context":"c","clusters":[{"name":"k","cluster":{"server":%q}}],"contexts":[{"name":"c","context":{"cluster":"k"}}]}`, address)
}

// strangerKubeconfig is that of a user without any right.
func strangerKubeconfig(t *testing.T, s *harness.Server, dir string) string {
	t.Helper()
	admin, err := os.ReadFile(s.Kubeconfig())
	check(t, err)
	var lines []string
	for line := range strings.Lines(string(admin)) {
		lines = append(lines, line)
		if strings.TrimSpace(line) == "user:" {
			lines = append(lines, "    as: stranger\n    as-groups: [strangers]\n")
		}
	}
	return writeFile(t, filepath.Join(dir, "stranger"), strings.Join(lines, ""))
}

// cut returns a log that ends in the middle: of a line, or of its compressed data.
func cut(t *testing.T, log string, compressed bool) string {
	t.Helper()
	text, err := os.ReadFile(log)
	check(t, err)
	if !compressed {
		return string(text) + string(text[:100])
	}
	var packed bytes.Buffer
	w := gzip.NewWriter(&packed)
	_, err = w.Write(bytes.Repeat(text, 50))
	check(t, err)
	check(t, w.Close())
	return packed.String()[:packed.Len()-20]
}
