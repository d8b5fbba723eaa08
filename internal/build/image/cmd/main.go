// Command cmd makes the image of `make image`. It runs in the module's root and is no part
// of the millrace binary.
//
//	go run ./internal/build/image/cmd -program bin/millrace -arch amd64 -out bin/millrace-amd64.tar
package main

import (
	"flag"
	"fmt"
	"os"
	"time"

	"github.com/millrace/millrace/internal/build/image"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	flags := flag.NewFlagSet("image", flag.ContinueOnError)
	program := flags.String("program", "", "the executable, built for Linux")
	roots := flags.String("roots", "/etc/ssl/certs/ca-certificates.crt", "certificates to trust, in PEM form")
	out := flags.String("out", "", "the tar file to write")
	cfg := &image.Config{Created: time.Unix(0, 0)}
	flags.StringVar(&cfg.Arch, "arch", "", "architecture of the executable")
	flags.StringVar(&cfg.Name, "name", "docker.io/library/millrace:latest", "name to import the image under")
	flags.StringVar(&cfg.Version, "version", "unknown", "version of the program")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if cfg.Program, err = os.ReadFile(*program); err != nil {
		return fmt.Errorf("read the executable: %w", err)
	}
	if cfg.Roots, err = os.ReadFile(*roots); err != nil {
		return fmt.Errorf("read certificates to trust: %w: give a file with -roots, or ROOTS=file to make", err)
	}
	file, err := os.Create(*out)
	if err != nil {
		return fmt.Errorf("create the image: %w", err)
	}
	if err := image.Write(file, cfg); err != nil {
		_ = file.Close()
		return fmt.Errorf("write the image: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("write the image: %w", err)
	}
	fmt.Printf("%s is %s for linux/%s\n", *out, cfg.Name, cfg.Arch)
	return nil
}
