package harness_test

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"testing"

	"github.com/millrace/millrace/test/support/harness"
)

func TestMain(m *testing.M) { harness.Main(m) }

// TestAbandonedDirectories starts another test process beside three directories: of a process
// that has ended, of a process that lives, and of another name. It must remove only the first.
func TestAbandonedDirectories(t *testing.T) {
	none := []string{"-test.run=^$"}
	ended := exec.Command(os.Args[0], none...)
	if err := ended.Run(); err != nil {
		t.Fatal(err)
	}
	dirs := map[bool][]string{}
	for _, d := range []struct {
		pattern string
		stays   bool
	}{
		{fmt.Sprintf("mr%d-", ended.Process.Pid), false}, {fmt.Sprintf("mr%d-", os.Getpid()), true}, {fmt.Sprintf("mrx%d-", ended.Process.Pid), true},
	} {
		dir, err := os.MkdirTemp("/dev/shm", d.pattern)
		if err != nil {
			t.Skipf("no files in memory: %v", err)
		}
		t.Cleanup(func() { _ = os.RemoveAll(dir) })
		dirs[d.stays] = append(dirs[d.stays], dir)
	}
	if output, err := exec.Command(os.Args[0], none...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, output)
	}
	for stays, names := range dirs {
		for _, dir := range names {
			_, err := os.Stat(dir)
			if gone := errors.Is(err, fs.ErrNotExist); gone == stays {
				t.Errorf("%s: gone %v, stays %v", dir, gone, stays)
			}
		}
	}
}
