// Command cmd makes releases and images, and verifies releases. The Makefile runs it; no program
// contains it.
//
//	releaser make -source . -version v1.2.3 -out bin/release -key key.pem
//	releaser image -source . -platform linux/amd64 -out bin/millrace-amd64.tar
//	releaser verify -key key.pub bin/release
package main

import (
	"context"
	"crypto"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/millrace/millrace/internal/build/release"
)

func main() {
	commands := map[string]func(context.Context, *flag.FlagSet, []string) error{"make": makeRelease, "image": makeImage, "verify": verify}
	if len(os.Args) < 2 || commands[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "releaser: give a command: make, image or verify; -h after the command prints its flags")
		os.Exit(1)
	}
	name := os.Args[1]
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := commands[name](ctx, flag.NewFlagSet(name, flag.ExitOnError), os.Args[2:]); err != nil {
		fmt.Fprintf(os.Stderr, "releaser %s: %v\n", name, err)
		os.Exit(1)
	}
}

// buildFlags has the flags that make and image have in common.
type buildFlags struct{ source, version, ldFlags, roots, out string }

func (b *buildFlags) add(flags *flag.FlagSet) {
	flags.StringVar(&b.source, "source", ".", "the root of the source")
	flags.StringVar(&b.version, "version", "unknown", "version of the programs")
	flags.StringVar(&b.ldFlags, "ldflags", "", "flags of the linker")
	flags.StringVar(&b.roots, "roots", "/etc/ssl/certs/ca-certificates.crt", "certificates to trust in the image, in PEM form")
	flags.StringVar(&b.out, "out", "", "the directory, or the image's file, to write")
}

// readRoots returns the content of the file with the certificates to trust.
func (b *buildFlags) readRoots() ([]byte, error) {
	roots, err := os.ReadFile(b.roots)
	if err != nil {
		return nil, fmt.Errorf("read certificates to trust: %w: give a file with -roots, or ROOTS=file to make", err)
	}
	return roots, nil
}

// makeRelease runs the command "make".
func makeRelease(ctx context.Context, flags *flag.FlagSet, args []string) error {
	var build buildFlags
	build.add(flags)
	keyFile := flags.String("key", "", "private key to sign by, in PEM form")
	platforms := flags.String("platforms", "", "the only platforms to build for, with commas between them")
	dirty := flags.Bool("dirty", false, "release a tree that differs from the commit")
	if err := flags.Parse(args); err != nil {
		return err
	}
	cfg := &release.Config{Programs: release.Programs(), LDFlags: build.ldFlags, Out: build.out}
	cfg.Platforms = strings.FieldsFunc(*platforms, func(r rune) bool { return r == ',' })
	var err error
	if cfg.Source, err = release.ReadSource(ctx, build.source, build.version, *dirty); err != nil {
		return err
	}
	if cfg.Roots, err = build.readRoots(); err != nil {
		return err
	}
	signed := "unsigned: give KEY=file to make to sign it"
	if *keyFile != "" {
		if cfg.Key, err = readKey(*keyFile, release.ParsePrivateKey); err != nil {
			return err
		}
		signed = "signed by " + *keyFile
	}
	if err := release.Make(ctx, cfg); err != nil {
		return err
	}
	fmt.Printf("%s is release %s of commit %s, %s\n", build.out, cfg.Source.Version, cfg.Source.Revision, signed)
	return nil
}

// makeImage runs the command "image". It builds the program, and writes an image for one platform.
func makeImage(ctx context.Context, flags *flag.FlagSet, args []string) error {
	var build buildFlags
	build.add(flags)
	platform := flags.String("platform", "linux/amd64", "platform of the image")
	name := flags.String("name", "docker.io/library/millrace:latest", "name to import the image under")
	if err := flags.Parse(args); err != nil {
		return err
	}
	image := &release.Image{Program: "millrace", Name: *name, Source: release.Source{Root: build.source, Version: build.version, Time: time.Unix(0, 0)}}
	var err error
	if image.Roots, err = build.readRoots(); err != nil {
		return err
	}
	executable, err := release.Build(ctx, &image.Source, image.Program, *platform, build.ldFlags)
	if err != nil {
		return err
	}
	image.Executables = map[string][]byte{*platform: executable}
	data, err := image.Tar()
	if err != nil {
		return err
	}
	if err := os.WriteFile(build.out, data, 0o644); err != nil {
		return fmt.Errorf("write image: %w", err)
	}
	fmt.Printf("%s is %s for %s\n", build.out, *name, *platform)
	return nil
}

// verify runs the command "verify".
func verify(ctx context.Context, flags *flag.FlagSet, args []string) error {
	keyFile := flags.String("key", "", "public key of the signer, in PEM form")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var key crypto.PublicKey
	signatures := "its signatures were not checked: give -key"
	if *keyFile != "" {
		var err error
		if key, err = readKey(*keyFile, release.ParsePublicKey); err != nil {
			return err
		}
		signatures = "signed by " + *keyFile
	}
	if err := release.Verify(ctx, flags.Arg(0), key); err != nil {
		return err
	}
	fmt.Printf("%s is a whole release, %s\n", flags.Arg(0), signatures)
	return nil
}

// readKey returns the key in a file.
func readKey[K any](file string, parse func([]byte) (K, error)) (K, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		var none K
		return none, fmt.Errorf("read key: %w", err)
	}
	key, err := parse(data)
	if err != nil {
		return key, fmt.Errorf("read key %s: %w", file, err)
	}
	return key, nil
}
