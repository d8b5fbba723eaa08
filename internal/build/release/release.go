// Package release makes a release of the programs, and verifies one. It also makes
// container images, without a container engine.
//
//	go build ─► program ─┬─► archive
//	                     ├─► SBOM, out of the build info in the program
//	                     └─► image of all platforms
//	all of these ─► provenance ─► SHA256SUMS ─► signatures
//
// A release is the same, byte for byte, for the same commit, Go version, roots of trust and
// key. Files have the commit's time and no owner. Signatures are not random. No file has a
// name of the machine.
//
// The caller reads the source with ReadSource, which refuses a tree that cannot be released,
// and passes it to Make. The package pushes and publishes nothing.
package release

import (
	"context"
	"crypto"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Program is one executable of a release. Its package is cmd/Name below the root.
type Program struct {
	Name string
	// Platforms are the platforms to build it for, as Go names them: linux/amd64.
	Platforms []string
	// InImage is set for the one program that has a container image.
	InImage bool
}

// Programs returns all programs that are released.
func Programs() []Program {
	linux := []string{"linux/amd64", "linux/arm64"}
	return []Program{
		{Name: "millrace", Platforms: linux, InImage: true},
		{Name: "millrace-tools", Platforms: append([]string{"darwin/amd64", "darwin/arm64"}, linux...)},
		{Name: "millrace-lab", Platforms: linux},
	}
}

// Config says which release to make. Key, Platforms and LDFlags may be left out.
type Config struct {
	Source   Source
	Programs []Program
	// Platforms restricts the platforms of all programs. Empty: no restriction.
	Platforms []string
	// LDFlags are the linker's flags.
	LDFlags string
	// Roots are the certificates that the program in the image trusts, in PEM form.
	Roots []byte
	// Key signs the release.
	Key crypto.Signer
	// Out is the directory to write to. It must be empty, or not exist yet.
	Out string
}

// imageName is the name that runtimes import images under, without the tag.
const imageName = "docker.io/library/millrace"

// Make makes a release.
func Make(ctx context.Context, cfg *Config) error {
	if err := os.MkdirAll(cfg.Out, 0o755); err != nil {
		return fmt.Errorf("make directory: %w", err)
	}
	entries, err := os.ReadDir(cfg.Out)
	if err != nil {
		return fmt.Errorf("read directory: %w", err)
	}
	if len(entries) > 0 {
		return fmt.Errorf("directory %s has files: remove it first", cfg.Out)
	}
	r := &release{cfg: cfg, files: map[string][]byte{}}
	steps := []func(context.Context) error{r.addPrograms, r.addImage, r.addProvenance, r.addChecksums}
	for _, step := range steps {
		if err := step(ctx); err != nil {
			return err
		}
	}
	for name, data := range r.files {
		if err := os.WriteFile(filepath.Join(cfg.Out, name), data, 0o644); err != nil {
			return fmt.Errorf("write file: %w", err)
		}
	}
	return nil
}

// release is a release that is being made.
type release struct {
	cfg *Config
	// files has the files of the release so far, by name.
	files map[string][]byte
	// image has the executables of the program with an image.
	image Image
	// goVersion is the version of Go in the executables.
	goVersion string
}

// names returns the names of all files so far, in order.
func (r *release) names() []string { return slices.Sorted(maps.Keys(r.files)) }

// addPrograms adds an archive and an SBOM of each program for each of its platforms.
func (r *release) addPrograms(ctx context.Context) error {
	shared := []tarFile{}
	for _, name := range []string{"LICENSE", "README.md"} {
		data, err := os.ReadFile(filepath.Join(r.cfg.Source.Root, name))
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		if err != nil {
			return fmt.Errorf("read document: %w", err)
		}
		shared = append(shared, tarFile{name, 0o644, absoluteLinks(data, r.cfg.Source.Version)})
	}
	for _, program := range r.cfg.Programs {
		for _, platform := range program.Platforms {
			if len(r.cfg.Platforms) > 0 && !slices.Contains(r.cfg.Platforms, platform) {
				continue
			}
			if err := r.addProgram(ctx, program, platform, shared); err != nil {
				return fmt.Errorf("make %s for %s: %w", program.Name, platform, err)
			}
		}
	}
	if len(r.files) == 0 {
		return fmt.Errorf("no program is built for any of %s: give platforms such as linux/amd64", strings.Join(r.cfg.Platforms, ", "))
	}
	return nil
}

// relativeLink matches the link of a Markdown document to a file beside it, up to the file.
var relativeLink = regexp.MustCompile(`(!?)(\[[^][]*\])\(([A-Za-z][^):]*\))`)

// absoluteLinks makes links to files of the repository lead to the files of a version, since an
// archive has none of them. GitHub shows a document under blob, and an image's bytes under raw.
func absoluteLinks(document []byte, version string) []byte {
	return relativeLink.ReplaceAllFunc(document, func(link []byte) []byte {
		part := relativeLink.FindSubmatch(link)
		kind := "blob"
		if len(part[1]) > 0 {
			kind = "raw"
		}
		return fmt.Appendf(nil, "%s%s(%s/%s/%s/%s", part[1], part[2], repository, kind, version, part[3])
	})
}

// addProgram builds a program for one platform, and adds its archive and SBOM. It keeps the
// executable for the image, if the program has one. shared has files for every archive.
func (r *release) addProgram(ctx context.Context, program Program, platform string, shared []tarFile) error {
	executable, err := Build(ctx, &r.cfg.Source, program.Name, platform, r.cfg.LDFlags)
	if err != nil {
		return err
	}
	base := fmt.Sprintf("%s-%s-%s", program.Name, r.cfg.Source.Version, strings.ReplaceAll(platform, "/", "-"))
	files := []tarFile{{base + "/" + program.Name, 0o755, executable}}
	for _, file := range shared {
		files = append(files, tarFile{base + "/" + file.name, file.mode, file.data})
	}
	if r.files[base+archiveSuffix], err = archive(r.cfg.Source.Time, files); err != nil {
		return err
	}
	if r.files[base+sbomSuffix], r.goVersion, err = sbom(program.Name, executable, &r.cfg.Source); err != nil {
		return err
	}
	if program.InImage && strings.HasPrefix(platform, "linux/") {
		if r.image.Executables == nil {
			r.image = Image{Source: r.cfg.Source, Program: program.Name, Roots: r.cfg.Roots, Name: imageName + ":" + r.cfg.Source.Version, Executables: map[string][]byte{}}
		}
		r.image.Executables[platform] = executable
	}
	return nil
}

// addImage adds one image for all platforms.
func (r *release) addImage(context.Context) error {
	if len(r.image.Executables) == 0 {
		return nil
	}
	data, err := r.image.Tar()
	if err != nil {
		return fmt.Errorf("make image: %w", err)
	}
	r.files[r.image.Program+"-"+r.cfg.Source.Version+imageSuffix] = data
	return nil
}

// Build returns the executable of a program for a platform. No C code is linked into it, and
// no path of the machine is in it.
func Build(ctx context.Context, source *Source, program, platform, ldFlags string) ([]byte, error) {
	dir, err := os.MkdirTemp("", "release-")
	if err != nil {
		return nil, fmt.Errorf("make directory: %w", err)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	file := filepath.Join(dir, program)
	goos, goarch, _ := strings.Cut(platform, "/")
	build := exec.CommandContext(ctx, "go", "build", "-ldflags", ldFlags, "-o", file, "./cmd/"+program)
	build.Dir = source.Root
	build.Env = append(os.Environ(), "GOFLAGS=-trimpath -buildvcs=false", "GOWORK=off", "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch, "GOAMD64=v1", "GOARM64=v8.0")
	build.Stderr = os.Stderr
	build.Cancel = func() error { return build.Process.Signal(os.Interrupt) } // it ends its compilers
	if err := build.Run(); err != nil {
		return nil, fmt.Errorf("build program: %w", err)
	}
	executable, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read program: %w", err)
	}
	return executable, nil
}
