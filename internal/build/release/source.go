package release

import (
	"context"
	"fmt"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// Source is the commit of which a release is made.
type Source struct {
	// Root is the directory of go.mod.
	Root string
	// Version is a semantic version with a v.
	Version string
	// Revision is the commit.
	Revision string
	// Time is the time of the commit. All files of the release have it.
	Time time.Time
	// Modified is set if files differ from the commit.
	Modified bool
}

// semantic matches versions that can be released.
var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

// ReadSource returns the commit of the tree at root, which it reads from git. It refuses a
// malformed version, a version that tags another commit, and a modified tree unless
// allowModified is set.
func ReadSource(ctx context.Context, root, version string, allowModified bool) (Source, error) {
	source := Source{Root: root, Version: version}
	if !semantic.MatchString(version) {
		return source, fmt.Errorf("version %q is not of the form v1.2.3: tag the commit, or give VERSION=v1.2.3 to make", version)
	}
	head, err := git(ctx, root, "log", "-1", "--format=%H %ct")
	if err != nil {
		return source, err
	}
	revision, seconds, _ := strings.Cut(head, " ")
	created, err := strconv.ParseInt(seconds, 10, 64)
	if err != nil {
		return source, fmt.Errorf("parse time of commit: %w", err)
	}
	source.Revision, source.Time = revision, time.Unix(created, 0).UTC()
	if tagged, err := git(ctx, root, "rev-parse", "--verify", "--quiet", "refs/tags/"+version+"^{commit}"); err == nil && tagged != revision {
		return source, fmt.Errorf("tag %s is commit %s, not %s: check out the tag, or give another VERSION", version, tagged, revision)
	}
	changes, err := git(ctx, root, "status", "--porcelain")
	if err != nil {
		return source, err
	}
	source.Modified = changes != ""
	if source.Modified && !allowModified {
		return source, fmt.Errorf("files differ from the commit: commit them, or give DIRTY=1 to make, for a release that cannot be reproduced:\n%s", changes)
	}
	return source, nil
}

// git runs git in a directory and returns its output without surrounding space.
func git(ctx context.Context, dir string, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "git", append([]string{"-C", dir}, args...)...).Output()
	if err != nil {
		return "", fmt.Errorf("run git %s: %w", args[0], err)
	}
	return strings.TrimSpace(string(out)), nil
}
