package counterpart

import (
	"encoding/json"
	"fmt"
	"path/filepath"
)

// Require changes the go.mod below root so that it requires the modules of a release, and
// returns the number of changed versions. It leaves modules that the release does not require.
// It also changes replacements of a module by a version of itself.
func Require(root string, release *Modules) (int, error) {
	file := filepath.Join(root, "go.mod")
	output, err := runGo("", "mod", "edit", "-json", file)
	if err != nil {
		return 0, fmt.Errorf("read requirements: %w", err)
	}
	var parsed struct {
		Require []Module
		Replace []struct{ Old, New Module }
	}
	if err := json.Unmarshal(output, &parsed); err != nil {
		return 0, fmt.Errorf("read requirements of %s: %w", file, err)
	}
	edit := []string{"mod", "edit"}
	for _, m := range parsed.Require {
		if v := release.Version(m.Path); v != "" && v != m.Version {
			edit = append(edit, "-require="+m.Path+"@"+v)
		}
	}
	for _, r := range parsed.Replace {
		if v := release.Version(r.New.Path); r.Old.Path == r.New.Path && v != "" && v != r.New.Version {
			edit = append(edit, "-replace="+r.Old.Path+"="+r.New.Path+"@"+v)
		}
	}
	changed := len(edit) - 2
	if changed == 0 {
		return 0, nil
	}
	if _, err := runGo("", append(edit, file)...); err != nil {
		return 0, fmt.Errorf("write requirements: %w", err)
	}
	return changed, nil
}
