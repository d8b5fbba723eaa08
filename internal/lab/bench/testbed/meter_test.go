package testbed

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const stat = "4711 (a (strange) name) S 1 4711 4711 0 -1 4194560 100 0 0 0 1234 66 9 9 20 0 12 0 777 1000 200\n"

func TestParseStat(t *testing.T) {
	got, err := parseStat([]byte(stat))
	if want := 13 * time.Second; err != nil || got != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	for _, bad := range []string{"", "1 name S", "1 (name) S 1 2", strings.Replace(stat, "1234", "many", 1)} {
		if _, err := parseStat([]byte(bad)); err == nil {
			t.Errorf("no error for %q", bad)
		}
	}
}

func TestParseKB(t *testing.T) {
	status := []byte("Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t 1 kB\nVmBad:\t 1 MB\n")
	if got, err := parseKB(status, "VmHWM"); err != nil || got != 2048*1024 {
		t.Errorf("got %d, %v", got, err)
	}
	for _, bad := range []string{"VmSwap", "VmBad", "Name"} {
		if _, err := parseKB(status, bad); err == nil {
			t.Errorf("no error for %s", bad)
		}
	}
}

func TestMeter(t *testing.T) {
	root := t.TempDir()
	dir := filepath.Join(root, "42")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	m := &Meter{root: root, pid: 42}
	if _, err := m.Read(); err == nil {
		t.Error("no error without files")
	}
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("stat", stat)
	write("status", "VmHWM:\t 20 kB\nVmRSS:\t 10 kB\n")
	write("clear_refs", "")
	got, err := m.Read()
	if want := (Usage{CPU: 13 * time.Second, RSS: 10240, Peak: 20480}); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	if _, err := m.BytesWritten(); err == nil {
		t.Error("no error without output")
	}
	write("io", "rchar: 7\nwchar: 12345\nsyscr: 1\n")
	if n, err := m.BytesWritten(); err != nil || n != 12345 {
		t.Errorf("got %d, %v", n, err)
	}
	if !m.ResetPeak() {
		t.Error("peak not reset")
	}
	if text, _ := os.ReadFile(filepath.Join(dir, "clear_refs")); string(text) != "5" {
		t.Errorf("wrote %q", text)
	}
}

func TestMeterOfThisProcess(t *testing.T) {
	got, err := NewMeter(os.Getpid()).Read()
	if err != nil || got.RSS <= 0 || got.Peak <= 0 {
		t.Errorf("got %+v, %v", got, err)
	}
}
