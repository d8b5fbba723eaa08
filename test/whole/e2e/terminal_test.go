package e2e

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/millrace/millrace/test/support/harness"
)

// openTerminal opens a terminal, and what a user sees of it.
func openTerminal(t *testing.T) (user, terminal *os.File) {
	t.Helper()
	user, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skipf("there are no terminals: %v", err)
	}
	t.Cleanup(func() { _ = user.Close() })
	number, err := unix.IoctlGetInt(int(user.Fd()), unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(user.Fd()), unix.TIOCSPTLCK, 0)
	}
	if err != nil {
		t.Fatal(err)
	}
	if terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skipf("there are no terminals: %v", err)
	}
	return user, terminal
}

// atTerminal starts the program at a terminal, by a name, and ends it when it has printed the
// last line of its greeting. It returns what a user sees.
func atTerminal(t *testing.T, name string, args ...string) (seen []string) {
	t.Helper()
	user, terminal := openTerminal(t)
	program, err := os.Executable()
	link := filepath.Join(t.TempDir(), name)
	if err == nil {
		err = os.Symlink(program, link)
	}
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(link, args...)
	cmd.Env = append(os.Environ(), harness.AsProgram)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	terminal.Close()
	lines := make(chan string, 1000)
	go func() {
		defer close(lines)
		for text := bufio.NewScanner(user); text.Scan(); {
			lines <- strings.TrimSpace(text.Text())
		}
	}()
	patience := time.After(2 * time.Minute)
	for ended := false; !ended; {
		select {
		case line, more := <-lines:
			seen, ended = append(seen, line), !more || strings.HasPrefix(line, "page ")
		case <-patience:
			ended = true
		}
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	return seen
}

// TestTerminal starts a server at a terminal, by a link with the name of Kubernetes' program, and
// a replica. A user sees a few lines, and the log is in a file.
func TestTerminal(t *testing.T) {
	t.Parallel()
	listen := func() []string {
		return []string{"--bind-address=127.0.0.1", fmt.Sprintf("--secure-port=%d", harness.FreePort(t))}
	}
	t.Run("serve", func(t *testing.T) {
		t.Parallel()
		dir := harness.ShortTempDir(t)
		checkGreeting(t, dir, atTerminal(t, "kube-apiserver", append(listen(), "--data-dir="+dir)...))
	})
	t.Run("replica", func(t *testing.T) {
		t.Parallel()
		s, dir := harness.Start(t, harness.ShortTempDir(t)), t.TempDir()
		args := append(listen(), "--kubeconfig="+s.Kubeconfig(), "--cert-dir="+dir, "--write-kubeconfig="+filepath.Join(dir, "kubeconfig"))
		checkGreeting(t, dir, atTerminal(t, "millrace", append([]string{"replica"}, args...)...))
	})
}

// checkGreeting checks what a user has seen of a program with the log in a directory.
func checkGreeting(t *testing.T, dir string, seen []string) {
	t.Helper()
	text := strings.Join(seen, "\n")
	for _, want := range []string{"millrace is ready at https://127.0.0.1:", "kubeconfig   " + dir, "the log is " + dir, " proxy, then http"} {
		if !strings.Contains(text, want) || len(seen) > 10 {
			t.Fatalf("%q is not in what is seen, or that has more than ten lines:\n%s", want, text)
		}
	}
	log, err := os.ReadFile(filepath.Join(dir, "millrace.log"))
	if err != nil || !strings.Contains(string(log), "Serving securely") {
		t.Errorf("the log has %d bytes: %v", len(log), err)
	}
}

// TestLinks runs the program by links with the names of Kubernetes' programs, as tools that start
// these do, and asks it for its version.
func TestLinks(t *testing.T) {
	t.Parallel()
	program, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct{ argument, want string }{
		"kube-apiserver": {"--help", "millrace serve"}, "kubectl": {"--help", "kubectl controls"}, "kube-scheduler": {"--help", "scheduler"},
		"kube-controller-manager": {"--help", "controller manager"}, "millrace": {"--version", "Kubernetes "},
	} {
		link := filepath.Join(t.TempDir(), name)
		if err := os.Symlink(program, link); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(link, c.argument)
		cmd.Env = append(os.Environ(), harness.AsProgram)
		if output, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(output), c.want) {
			t.Errorf("%s %s: %v, and not %q in\n%.500s", name, c.argument, err, c.want, output)
		}
	}
}
