// Package plantedfault builds programs and test binaries out of sources with a fault in them, so
// that a test can say whether another test or program finds it.
//
// A fault is data: texts of files, and what stands in their place. Nothing in the files
// themselves knows of it, and they stay as they are. The compiler reads the changed ones through
// an overlay. Servers that a test binary starts out of itself (package harness) have the fault too.
//
// A caller checks its faults with CheckApply in CI: a text that is no longer there is a fault that
// must be planted elsewhere. The package says nothing of what a test should find.
package plantedfault

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
)

// Fault is a fault that can be planted. The zero value is none.
type Fault struct {
	// Name names it in tests and documents.
	Name string
	// Breaks says in a sentence what the program does wrong.
	Breaks string
	Edits  []Edit
}

// Edit replaces a text of a file.
type Edit struct {
	// File is the file's path below the root of the module.
	File string
	// Old is a text that occurs exactly once in the file. New comes in its place.
	Old, New string
}

// ErrNotApplicable says that a file does not have the text that an Edit replaces, exactly once.
var ErrNotApplicable = errors.New("the edit cannot be applied")

// Apply returns the files that a fault changes, by their paths below a module's root.
func (f *Fault) Apply(root string) (map[string]string, error) {
	changed := map[string]string{}
	for _, e := range f.Edits {
		text, known := changed[e.File]
		if !known {
			read, err := os.ReadFile(filepath.Join(root, e.File))
			if err != nil {
				return nil, fmt.Errorf("plant %s: %w", f.Name, err)
			}
			text = string(read)
		}
		if n := strings.Count(text, e.Old); n != 1 {
			return nil, fmt.Errorf("plant %s: %w: %s has the old text %d times, and not once: %q", f.Name, ErrNotApplicable, e.File, n, e.Old)
		}
		changed[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	return changed, nil
}

// ImportArmed imports package armed into a file, whose package is named as its directory.
func ImportArmed(file string) Edit {
	clause := "package " + path.Base(path.Dir(file)) + "\n"
	return Edit{file, clause, clause + "\nimport \"github.com/millrace/millrace/test/support/plantedfault/armed\"\n"}
}

// BuildTest builds the test binary of a package, such as ./test/fault/living, with the fault. The
// binary and what the build needs are written to a directory, which holds one build.
func (f *Fault) BuildTest(ctx context.Context, dir, pkg string) (binary string, err error) {
	return f.build(ctx, dir, pkg, "test", "-c")
}

// BuildProgram builds a program, such as ./cmd/millrace, as BuildTest does.
func (f *Fault) BuildProgram(ctx context.Context, dir, pkg string) (binary string, err error) {
	return f.build(ctx, dir, pkg, "build", "-ldflags=-s -w")
}

func (f *Fault) build(ctx context.Context, dir, pkg string, command ...string) (binary string, err error) {
	root, err := Root()
	if err != nil {
		return "", err
	}
	overlay, err := f.writeOverlay(root, dir)
	if err != nil {
		return "", err
	}
	binary = filepath.Join(dir, "planted")
	build := exec.CommandContext(ctx, "go", append(command, "-overlay="+overlay, "-o", binary, pkg)...)
	build.Dir = root
	if output, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("build %s with %q: %w: %s", pkg, f.Name, err, output)
	}
	return binary, nil
}

// writeOverlay writes the changed files, and the file that tells the compiler of them.
func (f *Fault) writeOverlay(root, dir string) (file string, err error) {
	changed, err := f.Apply(root)
	if err != nil {
		return "", err
	}
	var overlay struct{ Replace map[string]string }
	overlay.Replace = map[string]string{}
	for name, text := range changed {
		replacement := filepath.Join(dir, strings.ReplaceAll(name, "/", "_"))
		if err := os.WriteFile(replacement, []byte(text), 0o600); err != nil {
			return "", err
		}
		overlay.Replace[filepath.Join(root, name)] = replacement
	}
	text, err := json.Marshal(overlay)
	if err != nil {
		return "", err
	}
	file = filepath.Join(dir, "overlay.json")
	return file, os.WriteFile(file, text, 0o600)
}

// Root returns the root of the module that the working directory is in.
func Root() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("find go.mod: there is none above the working directory")
		}
		dir = parent
	}
}
