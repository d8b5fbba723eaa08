// Package plantedfault builds programs and test binaries from sources with a fault in them, so
// that a test can check whether another test or program finds it.
//
// A fault is data: texts of files with their replacements. The files themselves do not change;
// the compiler reads the changed texts through an overlay. Servers that a test binary starts from
// itself (package harness) have the fault, too.
//
// A caller checks its faults with CheckApply in CI: if a text is not in its file any more, the
// fault must be planted elsewhere. The package does not decide what a test should find.
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

// Fault is a fault that can be planted. The zero value changes nothing.
type Fault struct {
	// Name is its name in tests and documents.
	Name string
	// Breaks is a sentence on what the program does wrong.
	Breaks string
	Edits  []Edit
}

// Edit replaces a text of a file.
type Edit struct {
	// File is the file's path below the root of the module.
	File string
	// Old is a text that occurs exactly once in the file. New takes its place.
	Old, New string
}

// ErrNotApplicable is the error of an Edit whose Old does not occur exactly once.
var ErrNotApplicable = errors.New("the edit cannot be applied")

// Apply returns the changed texts of the files that a fault changes, by their paths below a
// module's root.
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
			return nil, fmt.Errorf("plant %s: %w: %s has the old text %d times instead of once: %q", f.Name, ErrNotApplicable, e.File, n, e.Old)
		}
		changed[e.File] = strings.Replace(text, e.Old, e.New, 1)
	}
	return changed, nil
}

// ImportArmed returns an edit that imports package armed into a file. The file's package must
// have the name of its directory.
func ImportArmed(file string) Edit {
	clause := "package " + path.Base(path.Dir(file)) + "\n"
	return Edit{file, clause, clause + "\nimport \"github.com/millrace/millrace/test/support/plantedfault/armed\"\n"}
}

// BuildTest builds the test binary of a package, such as ./test/fault/living, with the fault. It
// writes the binary and the build's files to dir, which must have no other build.
func (f *Fault) BuildTest(ctx context.Context, dir, pkg string) (binary string, err error) {
	return f.build(ctx, dir, pkg, "test", "-c")
}

// BuildProgram builds a program, such as ./cmd/millrace, as BuildTest does.
func (f *Fault) BuildProgram(ctx context.Context, dir, pkg string) (binary string, err error) {
	return f.build(ctx, dir, pkg, "build", "-ldflags=-s -w")
}

// build runs a subcommand of go with the fault's overlay.
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

// writeOverlay writes the changed files to dir, and the overlay that maps the originals to them.
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

// Root returns the root directory of the module of the working directory.
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
