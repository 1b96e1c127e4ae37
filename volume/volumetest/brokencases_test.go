// SPDX-License-Identifier: Apache-2.0

package volumetest_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/klog/v2"

	"github.com/volumekit/volumekit/volume"
	"github.com/volumekit/volumekit/volume/volumetest"
)

// brokenCases are at least one for each rule.
func brokenCases() []brokenCase {
	return slices.Concat(
		brokenIdentities(), brokenLifecycles(), brokenNames(), brokenRoots(), brokenContents(), brokenByForeignMounts(),
		brokenByContexts(), brokenByFaults(), brokenByFullDisks(), brokenOtherwise(), brokenCapabilities(),
	)
}

func brokenIdentities() []brokenCase {
	return []brokenCase{
		{
			name: "Name differs between instances",
			config: func(t *testing.T) volumetest.Config {
				var names counter
				return broken(func(p *brokenPlugin) {
					name := fmt.Sprintf("example.com/%d", names.next())
					p.name = func() string { return name }
				})(t)
			},
			fails: "plugin/NameAndSourcesNeverChange", says: "Name of another instance",
		},
		{
			name:   "Name has no domain",
			config: broken(func(p *brokenPlugin) { p.name = func() string { return "nodomain" } }),
			fails:  "plugin/AManagerFindsItForEachCase", says: "nodomain",
		},
		{
			name: "Sources lacks the source of a case",
			config: broken(func(p *brokenPlugin) {
				p.Serves = []volume.Source{{Type: volume.SourceNFS}}
			}),
			fails: "plugin/AManagerFindsItForEachCase", says: `case "volume"`,
		},
		{
			name: "CanSupport accepts what is not supported",
			config: brokenConfig(nothing, func(config *volumetest.Config) {
				config.Unsupported = []*volume.Spec{emptyDirSpec()}
			}),
			fails: "plugin/UnsupportedSpecsAreRefused", says: `CanSupport of volume "scratch"`,
		},
		{
			name: "CanSupport expects a volume of a pod",
			config: brokenConfig(func(p *brokenPlugin) {
				p.Serves = []volume.Source{{Type: volume.SourceCSI}}
				p.Supports = func(spec *volume.Spec) bool { return spec.Volume.CSI != nil }
			}, func(config *volumetest.Config) { config.Cases[0].Spec = csiSpec("example.com") }),
			fails: "plugin/EmptySourcesDoNotPanic", says: "CanSupport panicked",
		},
		{
			name: "Init does not say what it lacks",
			config: broken(func(p *brokenPlugin) {
				p.init = func(_ context.Context, host volume.Host) error {
					if host.Secrets == nil {
						return errors.New("incomplete host")
					}
					return nil
				}
			}),
			fails: "plugin/InitSaysWhatTheHostLacks", says: "incomplete host",
		},
		{
			name: "Init never recovers",
			config: broken(func(p *brokenPlugin) {
				failed := false
				p.init = func(ctx context.Context, _ volume.Host) error {
					failed = failed || ctx.Err() != nil
					if failed {
						return errors.New("failed for ever")
					}
					return nil
				}
			}),
			fails: "plugin/InitSucceedsAfterItFailed", says: "failed for ever",
		},
		{
			name: "no access modes for a PersistentVolume",
			config: brokenConfig(func(p *brokenPlugin) { p.Serves = []volume.Source{{Type: volume.SourceCSI}} },
				func(config *volumetest.Config) {
					config.Cases[0].Spec = volume.NewSpecFromPersistentVolume(csiVolume("example.com", "handle"), false)
				}),
			fails: "plugin/AccessModesAreKnown", says: "has to be a PersistentVolumePlugin",
		},
		{
			name: "NewMounter accepts an invalid volume",
			config: brokenConfig(nothing, func(config *volumetest.Config) {
				config.Invalid = []volumetest.InvalidCase{{Name: "invalid", Spec: emptyDirSpec(), Mentions: []string{"medium"}}}
			}),
			fails: "invalid/NewMounterRefusesItByName", says: "An error is expected",
		},
		{
			name: "NewMounter does not say what is invalid",
			config: brokenConfig(func(p *brokenPlugin) {
				p.newMounter = func(*volume.Spec, *v1.Pod) (volume.Mounter, error) {
					return nil, errors.New("no")
				}
			}, func(config *volumetest.Config) {
				config.Invalid = []volumetest.InvalidCase{{Name: "invalid", Spec: emptyDirSpec(), Mentions: []string{"medium"}}}
			}),
			fails: "invalid/NewMounterRefusesItByName", says: `"no" does not contain "medium"`,
		},
	}
}

func brokenLifecycles() []brokenCase {
	return []brokenCase{
		{
			name: "VolumeName changes",
			config: func(t *testing.T) volumetest.Config {
				var names counter
				return broken(func(p *brokenPlugin) {
					p.volumeName = func(*volume.Spec) (string, error) { return fmt.Sprint(names.next()), nil }
				})(t)
			},
			fails: "volume/VolumeNameIsStable", says: "VolumeName of the same spec",
		},
		{
			name: "NewMounter makes the directory",
			config: broken(brokenMounting(func(m *brokenMounter) {
				_ = os.MkdirAll(m.Mounter.Path(), 0o755)
			})),
			fails: "volume/MountersComeWithoutIO", says: "what has changed on the disk",
		},
		{
			name: "NewMounter looks at the root",
			config: broken(brokenMounting(func(m *brokenMounter) {
				_, _ = os.Stat(m.plugin.host.Root)
			})),
			fails: "volume/MountersComeWithoutAskingTheRoot", says: "NewMounter did not return within 1s",
		},
		{
			name: "Presence never finds it",
			config: broken(brokenMounting(func(m *brokenMounter) {
				m.presence = func(context.Context) (volume.Presence, error) { return volume.Absent, nil }
			})),
			fails: "volume/SetUpMakesItPresentAndTearDownAbsent", says: "the volume is absent after SetUp",
		},
		{
			name: "Presence takes absent for unknown",
			config: broken(brokenMounting(func(m *brokenMounter) {
				m.presence = func(context.Context) (volume.Presence, error) { return volume.Unknown, nil }
			})),
			fails: "volume/SetUpMakesItPresentAndTearDownAbsent", says: "no error says why",
		},
		{
			name: "Path is outside of the pod's directory",
			config: broken(brokenMounting(func(m *brokenMounter) {
				m.path = func() string { return m.plugin.host.Root }
			})),
			fails: "volume/SetUpMakesItPresentAndTearDownAbsent", says: "is not in the pod's directory",
		},
		{
			name: "the pod is changed",
			config: broken(brokenMounting(func(m *brokenMounter) {
				m.pod.Labels = map[string]string{"seen": "true"}
			})),
			fails: "volume/SetUpMakesItPresentAndTearDownAbsent", says: "the plugin has changed the pod",
		},
		{
			name: "SetUp sets the mode each time",
			config: broken(brokenMounting(func(m *brokenMounter) {
				m.setUp = func(ctx context.Context, options volume.SetUpOptions) error {
					return errors.Join(m.Mounter.SetUp(ctx, options), os.Chmod(m.Path(), 0o777))
				}
			})),
			fails: "volume/SetUpAgainChangesNothing", says: "what has changed on the disk",
		},
		{
			name: "SetUp mounts again after a restart",
			config: brokenTmpfs(func(p *brokenPlugin) {
				mounted := make(map[string]bool)
				p.mounter = func(m *brokenMounter) {
					m.setUp = func(ctx context.Context, options volume.SetUpOptions) error {
						if err := m.Mounter.SetUp(ctx, options); err != nil || mounted[m.Path()] {
							return err
						}
						mounted[m.Path()] = true
						return p.host.Mounter.Mount("tmpfs", m.Path(), "tmpfs", []string{"mode=777"})
					}
				}
			}),
			fails: "volume/SetUpByANewInstanceChangesNothing", says: "mounts that came (+) and went (-)",
		},
		{
			name: "TearDown of what is gone fails",
			config: broken(brokenUnmounting(func(u *brokenUnmounter) {
				u.tearDown = func(ctx context.Context, options volume.TearDownOptions) error {
					if _, err := os.Stat(u.Path()); err != nil {
						return err
					}
					return u.Unmounter.TearDown(ctx, options)
				}
			})),
			fails: "volume/TearDownCanBeRepeated", says: "TearDown again",
		},
		{
			name: "TearDown removes the volumes of all plugins",
			config: broken(brokenUnmounting(func(u *brokenUnmounter) {
				u.tearDown = func(context.Context, volume.TearDownOptions) error {
					return os.RemoveAll(u.plugin.host.PodVolumesDir(u.podUID))
				}
			})),
			fails: "volume/TearDownOfWhatWasNeverSetUp", says: "what has changed in another plugin's volume",
		},
		{
			name: "TearDown needs the instance that set it up",
			config: broken(func(p *brokenPlugin) {
				known := false
				p.mounter = func(m *brokenMounter) {
					m.setUp = func(ctx context.Context, options volume.SetUpOptions) error {
						known = true
						return m.Mounter.SetUp(ctx, options)
					}
				}
				p.unmounter = func(u *brokenUnmounter) {
					u.tearDown = func(ctx context.Context, options volume.TearDownOptions) error {
						if !known {
							return nil
						}
						return u.Unmounter.TearDown(ctx, options)
					}
				}
			}),
			fails: "volume/TearDownByANewInstance", says: "the volume is present after TearDown",
		},
		{
			name: "TearDown leaves a file",
			config: broken(brokenUnmounting(func(u *brokenUnmounter) {
				u.tearDown = func(ctx context.Context, options volume.TearDownOptions) error {
					err := u.Unmounter.TearDown(ctx, options)
					return errors.Join(err, os.MkdirAll(u.plugin.host.Root, 0o755),
						os.WriteFile(filepath.Join(u.plugin.host.Root, "record"), nil, 0o644))
				}
			})),
			fails: "volume/SetUpMakesItPresentAndTearDownAbsent", says: `left below the root: ["/record"]`,
		},
		{
			name: "the second SetUp fails",
			config: func(t *testing.T) volumetest.Config {
				var times counter
				return broken(brokenMounting(func(m *brokenMounter) {
					m.setUp = func(ctx context.Context, options volume.SetUpOptions) error {
						if times.next() > 1 {
							return errors.New("only once")
						}
						return m.Mounter.SetUp(ctx, options)
					}
				}))(t)
			},
			fails: "volume/SetUpAfterTearDown", says: "only once",
		},
		{
			name: "ReadOnly is not passed on",
			config: brokenConfig(nothing, func(config *volumetest.Config) {
				config.Cases[0].Spec.ReadOnly = true
			}),
			fails: "volume/ReadOnlyIsKnown", says: "Attributes.ReadOnly",
		},
		{
			name: "a secret on the disk",
			config: brokenConfig(brokenMounting(func(m *brokenMounter) {
				m.setUp = func(ctx context.Context, options volume.SetUpOptions) error {
					err := m.Mounter.SetUp(ctx, options)
					return errors.Join(err, os.WriteFile(filepath.Join(m.plugin.host.Root, "record"), []byte(canary), 0o600))
				}
			}), withCanary),
			fails: "volume/SecretsShowNowhere", says: "a secret shows in",
		},
		{
			name: "a secret in a log",
			config: brokenConfig(brokenMounting(func(m *brokenMounter) {
				m.setUp = func(ctx context.Context, options volume.SetUpOptions) error {
					klog.FromContext(ctx).V(9).Info("Setting up", "password", canary)
					return m.Mounter.SetUp(ctx, options)
				}
			}), withCanary),
			fails: "volume/SetUpAgainChangesNothing", says: "a secret shows in a log",
		},
		{
			name: "a secret in an error",
			config: brokenConfig(brokenMounting(func(m *brokenMounter) {
				m.presence = func(context.Context) (volume.Presence, error) {
					return volume.Unknown, errors.New("password " + canary)
				}
			}), withCanary),
			fails: "volume/ACancelledPresenceReturns", says: "a secret shows in an error",
		},
		{
			name: "a secret in a warning",
			config: brokenConfig(brokenUnmounting(func(u *brokenUnmounter) {
				u.tearDown = func(ctx context.Context, options volume.TearDownOptions) error {
					options.Warnf("unmounted by force, password %s", canary)
					return u.Unmounter.TearDown(ctx, options)
				}
			}), withCanary),
			fails: "volume/TearDownCanBeRepeated", says: "a secret shows in a warning",
		},
		{
			name: "a secret in mount options",
			config: brokenConfig(func(p *brokenPlugin) {
				p.mounter = func(m *brokenMounter) {
					m.setUp = func(ctx context.Context, options volume.SetUpOptions) error {
						_ = p.host.Mounter.Mount("tmpfs", m.Path(), "tmpfs", []string{"password=" + canary})
						return m.Mounter.SetUp(ctx, options)
					}
				}
			}, withCanary),
			fails: "volume/SetUpAfterTearDown", says: "a secret shows in the arguments of a mount",
		},
		{
			name: "a secret in the arguments of a command",
			config: brokenConfig(func(p *brokenPlugin) {
				p.mounter = func(m *brokenMounter) {
					m.setUp = func(ctx context.Context, options volume.SetUpOptions) error {
						_ = p.host.Exec.CommandContext(ctx, "true", canary).Run()
						return m.Mounter.SetUp(ctx, options)
					}
				}
			}, withCanary),
			fails: "volume/SetUpAfterTearDown", says: "a secret shows in the arguments of a command",
		},
	}
}

func withCanary(config *volumetest.Config) { config.Canaries = []string{canary} }

func brokenNames() []brokenCase {
	return []brokenCase{
		{
			name: "NewMounter takes any name",
			config: broken(func(p *brokenPlugin) {
				p.newMounter = func(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
					mounter, err := p.FakePlugin.NewMounter(emptyDirSpec(), &v1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "uid"}})
					return &brokenMounter{Mounter: mounter, path: func() string {
						return p.host.PodVolumeDir(pod.UID, p.Name(), spec.Name())
					}}, err
				}
			}),
			fails: "volume/NewMounterRefusesHostileNames", says: `volume "..": NewMounter accepts it`,
		},
		{
			name: "NewUnmounter takes any name",
			config: broken(brokenUnmounting(func(u *brokenUnmounter) {
				u.tearDown = func(context.Context, volume.TearDownOptions) error {
					return os.RemoveAll(u.plugin.host.PodVolumeDir(u.podUID, u.plugin.Name(), u.name))
				}
			})),
			fails: "volume/NewUnmounterRefusesHostileNamesOrDoesNoHarm", says: "what TearDown of volume",
		},
		{
			name: "long names are refused",
			config: broken(func(p *brokenPlugin) {
				p.newMounter = func(spec *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
					if len(spec.Name()) > 60 {
						return nil, volume.Errorf(volume.ErrInvalid, "too long")
					}
					return p.FakePlugin.NewMounter(spec, pod)
				}
			}),
			fails: "volume/LongNamesAreServed", says: "too long",
		},
	}
}

func brokenRoots() []brokenCase {
	return []brokenCase{
		{
			name: "a symbolic link is taken for no root",
			config: broken(brokenMounting(func(m *brokenMounter) {
				m.setUp = func(ctx context.Context, options volume.SetUpOptions) error {
					if info, err := os.Lstat(m.plugin.host.Root); err == nil && !info.IsDir() {
						return errors.New("the root is no directory")
					}
					return m.Mounter.SetUp(ctx, options)
				}
			})),
			fails: "volume/TheRootMayBeASymlink", says: "the root is no directory",
		},
		{
			name: "the umask takes part",
			config: broken(brokenMounting(func(m *brokenMounter) {
				m.setUp = func(context.Context, volume.SetUpOptions) error { return os.MkdirAll(m.Path(), 0o777) }
				m.presence = anyDirectory(m)
			})),
			fails: "volume/TheUmaskDoesNotMatter", says: "the volume's mode",
		},
		{
			name: "SetUp does not go on from a directory that is there",
			config: broken(brokenMounting(func(m *brokenMounter) {
				m.setUp = func(ctx context.Context, options volume.SetUpOptions) error {
					if presence, _ := m.Presence(ctx); presence == volume.Present {
						return nil
					}
					if err := os.MkdirAll(filepath.Dir(m.Path()), 0o750); err != nil {
						return err
					}
					if err := os.Mkdir(m.Path(), 0o777); err != nil {
						return err
					}
					return m.Mounter.SetUp(ctx, options)
				}
			})),
			fails: "volume/HalfMadeDirectoriesAreNoObstacle", says: "file exists",
		},
		{
			name: "Presence takes a bare mount point for the volume",
			config: brokenTmpfs(brokenMounting(func(m *brokenMounter) {
				m.presence = anyDirectory(m)
			})),
			fails: "volume/WhatWasUnmountedByHandIsNotPresent", says: "although nothing is mounted any more",
		},
		{
			name: "SetUp takes a bare mount point for the volume",
			config: brokenTmpfs(brokenMounting(func(m *brokenMounter) {
				m.setUp = func(ctx context.Context, options volume.SetUpOptions) error {
					if _, err := os.Stat(m.Path()); err == nil {
						return nil
					}
					return m.Mounter.SetUp(ctx, options)
				}
			})),
			fails: "volume/SetUpAfterAReboot", says: "the volume is absent after SetUp",
		},
		{
			name: "TearDown insists on unmounting",
			config: brokenTmpfs(brokenUnmounting(func(u *brokenUnmounter) {
				u.tearDown = func(ctx context.Context, options volume.TearDownOptions) error {
					if _, err := os.Stat(u.Path()); err != nil {
						return nil
					}
					if err := u.plugin.host.Mounter.Unmount(u.Path()); err != nil {
						return err
					}
					return u.Unmounter.TearDown(ctx, options)
				}
			})),
			fails: "volume/TearDownAfterAReboot", says: "TearDown: ",
		},
		{
			name: "TearDown removes an empty mount point only",
			config: brokenTmpfs(brokenUnmounting(func(u *brokenUnmounter) {
				u.tearDown = func(context.Context, volume.TearDownOptions) error {
					_ = u.plugin.host.Mounter.Unmount(u.Path())
					if err := os.Remove(u.Path()); !errors.Is(err, fs.ErrNotExist) {
						return err
					}
					return nil
				}
			})),
			fails: "volume/TearDownRemovesAFileUnderTheMountPoint", says: "directory not empty",
		},
		{
			name: "SetUp is content with a file under the mount point",
			config: brokenTmpfs(brokenMounting(func(m *brokenMounter) {
				m.setUp = func(ctx context.Context, options volume.SetUpOptions) error {
					if entries, err := os.ReadDir(m.Path()); err == nil && len(entries) > 0 {
						return nil
					}
					return m.Mounter.SetUp(ctx, options)
				}
			})),
			fails: "volume/SetUpWithAFileUnderTheMountPoint", says: "the volume is absent after SetUp",
		},
	}
}

// anyDirectory is a Presence for which any directory will do.
func anyDirectory(m *brokenMounter) func(context.Context) (volume.Presence, error) {
	return func(context.Context) (volume.Presence, error) {
		if _, err := os.Stat(m.Path()); err != nil {
			return volume.Absent, nil
		}
		return volume.Present, nil
	}
}

func brokenContents() []brokenCase {
	return []brokenCase{
		{
			name: "SetUp empties the volume",
			config: broken(brokenMounting(func(m *brokenMounter) {
				m.setUp = func(ctx context.Context, options volume.SetUpOptions) error {
					return errors.Join(m.Mounter.SetUp(ctx, options), emptyDirectory(m.Path()))
				}
			})),
			fails: "volume/FilesStayUntilTearDown", says: "read from the volume",
		},
		{
			name: "TearDown keeps the files for the next pod",
			config: func(t *testing.T) volumetest.Config {
				attic := filepath.Join(t.TempDir(), "attic")
				return broken(func(p *brokenPlugin) {
					p.mounter = func(m *brokenMounter) {
						m.setUp = func(ctx context.Context, options volume.SetUpOptions) error {
							err := os.MkdirAll(filepath.Dir(m.Path()), 0o755)
							_ = os.Rename(attic, m.Path())
							return errors.Join(err, m.Mounter.SetUp(ctx, options))
						}
					}
					p.unmounter = func(u *brokenUnmounter) {
						u.tearDown = func(ctx context.Context, options volume.TearDownOptions) error {
							_ = os.Rename(u.Path(), attic)
							return u.Unmounter.TearDown(ctx, options)
						}
					}
				})(t)
			},
			fails: "volume/FilesAreGoneAfterTearDown", says: "file \"",
		},
		{
			name: "TearDown removes durable files",
			config: brokenConfig(nothing, func(config *volumetest.Config) {
				config.Cases[0].Durable = true
			}),
			fails: "volume/FilesOutliveTearDown", says: "read from the volume",
		},
		{
			name: "TearDown changes what links point to",
			config: broken(brokenUnmounting(func(u *brokenUnmounter) {
				u.tearDown = func(ctx context.Context, options volume.TearDownOptions) error {
					entries, _ := os.ReadDir(u.Path())
					for _, entry := range entries {
						_ = os.Chmod(filepath.Join(u.Path(), entry.Name()), 0o700)
					}
					return u.Unmounter.TearDown(ctx, options)
				}
			})),
			fails: "volume/TearDownFollowsNoSymlinkInTheVolume", says: "what has changed outside of the volume",
		},
		{
			name: "TearDown resolves the volume's path",
			config: broken(brokenUnmounting(func(u *brokenUnmounter) {
				u.tearDown = func(ctx context.Context, options volume.TearDownOptions) error {
					if real, err := filepath.EvalSymlinks(u.Path()); err == nil {
						return os.RemoveAll(real)
					}
					return u.Unmounter.TearDown(ctx, options)
				}
			})),
			fails: "volume/TearDownFollowsNoSymlinkInPlaceOfTheVolume", says: "what has changed outside of the volume",
		},
		{
			name: "TearDown trips over names",
			config: broken(brokenUnmounting(func(u *brokenUnmounter) {
				u.tearDown = func(ctx context.Context, options volume.TearDownOptions) error {
					if entries, _ := os.ReadDir(u.Path()); slices.ContainsFunc(entries, isBlank) {
						return errors.New("unrecognised option")
					}
					return u.Unmounter.TearDown(ctx, options)
				}
			})),
			fails: "volume/TearDownRemovesAwkwardFiles", says: "unrecognised option",
		},
		{
			name: "TearDown works with paths",
			config: broken(brokenUnmounting(func(u *brokenUnmounter) {
				u.tearDown = func(context.Context, volume.TearDownOptions) error {
					var paths []string
					err := filepath.WalkDir(u.Path(), func(path string, _ fs.DirEntry, err error) error {
						paths = append(paths, path)
						return err
					})
					if err != nil && !errors.Is(err, fs.ErrNotExist) {
						return err
					}
					for _, path := range slices.Backward(paths) {
						if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
							return err
						}
					}
					return nil
				}
			})),
			fails: "volume/TearDownRemovesATreeThatIsDeeperThanAPath", says: "file name too long",
		},
	}
}

func isBlank(entry fs.DirEntry) bool { return strings.TrimSpace(entry.Name()) == "" }

func brokenByForeignMounts() []brokenCase {
	removeAll := broken(brokenUnmounting(func(u *brokenUnmounter) {
		u.tearDown = func(context.Context, volume.TearDownOptions) error { return os.RemoveAll(u.Path()) }
	}))
	return []brokenCase{
		{
			name: "TearDown empties a bind mount", config: removeAll,
			fails: "volume/TearDownLeavesABindMountAlone", says: "what TearDown has changed in the foreign mount",
		},
		{
			name: "TearDown does not say that something is in use", config: removeAll,
			fails: "volume/TearDownLeavesABoundFileAlone", says: `expected: "in use"`,
		},
		{
			name: "TearDown does not say what is in use",
			config: broken(brokenUnmounting(func(u *brokenUnmounter) {
				u.tearDown = func(ctx context.Context, options volume.TearDownOptions) error {
					if u.Unmounter.TearDown(ctx, options) != nil {
						return volume.Errorf(volume.ErrInUse, "something is mounted")
					}
					return nil
				}
			})),
			fails: "volume/TearDownLeavesABoundFileAlone", says: `"something is mounted" does not contain`,
		},
		{
			name: "TearDown detaches what is mounted inside",
			config: brokenTmpfs(brokenUnmounting(func(u *brokenUnmounter) {
				u.tearDown = func(ctx context.Context, options volume.TearDownOptions) error {
					_ = detach(u.Path())
					return u.Unmounter.TearDown(ctx, options)
				}
			})),
			fails: "volume/TearDownLeavesATmpfsAlone", says: "foreign mounts that came (+) and went (-)",
		},
	}
}

func brokenByContexts() []brokenCase {
	stuckAfter := func(ended error) func(*testing.T) volumetest.Config {
		return func(t *testing.T) volumetest.Config {
			stuck := false // until the process ends, whatever is started again
			return broken(func(p *brokenPlugin) {
				p.mounter = func(m *brokenMounter) {
					m.setUp = func(ctx context.Context, options volume.SetUpOptions) error {
						stuck = stuck || errors.Is(ctx.Err(), ended)
						if stuck {
							return errors.New("stuck")
						}
						return m.Mounter.SetUp(ctx, options)
					}
				}
				p.unmounter = func(u *brokenUnmounter) {
					u.tearDown = func(ctx context.Context, options volume.TearDownOptions) error {
						stuck = stuck || errors.Is(ctx.Err(), ended)
						if stuck {
							return errors.New("stuck")
						}
						return u.Unmounter.TearDown(ctx, options)
					}
				}
			})(t)
		}
	}
	cases := []brokenCase{
		{
			name: "SetUp does not return when it is cancelled",
			config: broken(brokenMounting(func(m *brokenMounter) {
				m.setUp = func(ctx context.Context, options volume.SetUpOptions) error {
					if ctx.Err() != nil {
						select {}
					}
					return m.Mounter.SetUp(ctx, options)
				}
			})),
			fails: "volume/ACancelledSetUpReturnsAndCanBeRepeated", says: "SetUp did not return within 1s",
		},
		{
			name: "Presence takes a cancelled context for an answer",
			config: broken(brokenMounting(func(m *brokenMounter) {
				m.presence = func(ctx context.Context) (volume.Presence, error) {
					if ctx.Err() != nil {
						return volume.Absent, nil
					}
					return m.Mounter.Presence(ctx)
				}
			})),
			fails: "volume/ACancelledPresenceReturns", says: "Presence is absent, which is wrong",
		},
		{
			name: "SetUp that is cancelled after it has mounted calls that final",
			config: brokenTmpfs(brokenMounting(func(m *brokenMounter) {
				m.setUp = func(ctx context.Context, options volume.SetUpOptions) error {
					return errors.Join(m.Mounter.SetUp(ctx, options), ctx.Err())
				}
			})),
			fails: "volume/SetUpIsCancelledHalfway", says: "does not match ErrUncertain",
		},
	}
	for rule, ended := range map[string]error{
		"ACancelledSetUpReturnsAndCanBeRepeated":          context.Canceled,
		"ASetUpPastItsDeadlineReturnsAndCanBeRepeated":    context.DeadlineExceeded,
		"ASetUpThatIsCancelledCanBeTornDown":              context.Canceled,
		"ACancelledTearDownReturnsAndCanBeRepeated":       context.Canceled,
		"ATearDownPastItsDeadlineReturnsAndCanBeRepeated": context.DeadlineExceeded,
	} {
		cases = append(cases, brokenCase{
			name: "stuck after " + rule, config: stuckAfter(ended), fails: "volume/" + rule, says: "stuck",
		})
	}
	return cases
}

func brokenByFaults() []brokenCase {
	// One that fails for ever once a mount has failed.
	failsForEver := func(t *testing.T) volumetest.Config {
		failed := false
		return brokenTmpfs(func(p *brokenPlugin) {
			p.mounter = func(m *brokenMounter) {
				m.setUp = func(ctx context.Context, options volume.SetUpOptions) error {
					if failed {
						return errors.New("for ever")
					}
					err := m.Mounter.SetUp(ctx, options)
					failed = err != nil
					return err
				}
			}
			p.unmounter = func(u *brokenUnmounter) {
				u.tearDown = func(ctx context.Context, options volume.TearDownOptions) error {
					if failed {
						return errors.New("for ever")
					}
					err := u.Unmounter.TearDown(ctx, options)
					failed = err != nil
					return err
				}
			}
		})(t)
	}
	cases := []brokenCase{
		{
			name: "SetUp makes an uncertain error final",
			config: brokenTmpfs(brokenMounting(func(m *brokenMounter) {
				m.setUp = func(ctx context.Context, options volume.SetUpOptions) error {
					if err := m.Mounter.SetUp(ctx, options); err != nil {
						return errors.New(err.Error())
					}
					return nil
				}
				m.presence = func(context.Context) (volume.Presence, error) {
					if mounted, _ := m.plugin.host.Mounter.IsMountPoint(m.Path()); mounted {
						return volume.Present, nil
					}
					return volume.Absent, nil
				}
			})),
			fails: "volume/SetUpGoesOnAfterAnErrorAtEveryMount", says: "does not match ErrUncertain",
		},
		{
			name: "TearDown forgets that unmounting failed",
			config: brokenTmpfs(brokenUnmounting(func(u *brokenUnmounter) {
				u.tearDown = func(ctx context.Context, options volume.TearDownOptions) error {
					_ = u.Unmounter.TearDown(ctx, options)
					return nil
				}
			})),
			fails: "volume/TearDownGoesOnAfterAnErrorAtEveryUnmount", says: "the volume is present after TearDown",
		},
	}
	for _, rule := range []string{
		"SetUpGoesOnAfterAnErrorAtEveryMount", "SetUpGoesOnAfterACrashAtEveryMount",
		"TearDownCleansUpAfterAnErrorAtEveryMount", "TearDownCleansUpAfterACrashAtEveryMount",
		"TearDownGoesOnAfterAnErrorAtEveryUnmount", "TearDownGoesOnAfterACrashAtEveryUnmount",
	} {
		cases = append(cases, brokenCase{
			name: "fails for ever after " + rule, config: failsForEver, fails: "volume/" + rule, says: "for ever",
		})
	}
	return cases
}

func brokenByFullDisks() []brokenCase {
	// Those that cannot set up or take down without writing, and say so in some way.
	writes := func(sorry func(root string) error) func(*testing.T) volumetest.Config {
		return broken(writing(sorry))
	}
	return []brokenCase{
		{
			name:   "SetUp does not say that the disk has no inodes",
			config: writes(func(root string) error { return fmt.Errorf("cannot write into %s", root) }),
			fails:  "volume/SetUpOnADiskWithoutInodes", says: "neither ErrExhausted nor ENOSPC: cannot write into",
		},
		{
			name:   "SetUp does not say where the disk has no space",
			config: writes(func(string) error { return volume.Errorf(volume.ErrExhausted, "sorry") }),
			fails:  "volume/SetUpOnADiskWithoutSpace", says: "the error names neither a path nor the volume: sorry",
		},
		{
			name:   "TearDown needs space",
			config: writes(func(string) error { return volume.Errorf(volume.ErrExhausted, "sorry") }),
			fails:  "volume/TearDownOnAFullDisk", says: "no space left on device",
		},
	}
}

// writing makes a plugin write into the root for everything that it does. What SetUp says if it cannot is for sorry to say.
func writing(sorry func(root string) error) func(*brokenPlugin) {
	return func(p *brokenPlugin) {
		write := func(dir string) error {
			file := filepath.Join(dir, "scratch")
			err := os.MkdirAll(dir, 0o755)
			return errors.Join(err, os.WriteFile(file, bytes.Repeat([]byte("x"), 64<<10), 0o600), os.Remove(file))
		}
		p.mounter = func(m *brokenMounter) {
			m.setUp = func(ctx context.Context, options volume.SetUpOptions) error {
				if write(p.host.Root) != nil {
					return sorry(p.host.Root)
				}
				return m.Mounter.SetUp(ctx, options)
			}
		}
		p.unmounter = func(u *brokenUnmounter) {
			u.tearDown = func(ctx context.Context, options volume.TearDownOptions) error {
				return errors.Join(write(p.host.Root), u.Unmounter.TearDown(ctx, options))
			}
		}
	}
}

func brokenOtherwise() []brokenCase {
	return []brokenCase{
		{
			name: "FSGroup is ignored",
			config: broken(brokenMounting(func(m *brokenMounter) {
				m.setUp = func(ctx context.Context, _ volume.SetUpOptions) error {
					return m.Mounter.SetUp(ctx, volume.SetUpOptions{})
				}
			})),
			fails: "volume/FSGroupOwnsManagedVolumesOnly", says: "the group of /",
		},
		{
			name: "FSGroup is applied to what is not managed",
			config: broken(brokenMounting(func(m *brokenMounter) {
				m.attributes = &volume.Attributes{}
			})),
			fails: "volume/FSGroupOwnsManagedVolumesOnly", says: "what has changed on the disk",
		},
		{
			name: "Metrics never change",
			config: broken(brokenMounting(func(m *brokenMounter) {
				m.metrics = func(context.Context) (volume.Metrics, error) { return volume.Metrics{Time: time.Now()}, nil }
			})),
			fails: "volume/MetricsGrowWithTheFiles", says: "Metrics.Used after",
		},
		{
			name: "Metrics do not return when they are cancelled",
			config: broken(brokenMounting(func(m *brokenMounter) {
				m.metrics = func(ctx context.Context) (volume.Metrics, error) {
					<-ctx.Done()
					select {}
				}
			})),
			fails: "volume/CancelledMetricsReturn", says: "Metrics did not return within 1s",
		},
		{
			name: "two volumes have one place",
			config: broken(func(p *brokenPlugin) {
				p.newMounter = func(_ *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
					return p.FakePlugin.NewMounter(emptyDirSpec(), pod)
				}
			}),
			fails: "volume/AHundredVolumesAtOnce", says: "two volumes have the same path",
		},
		{
			name: "TearDown removes the neighbours",
			config: broken(brokenUnmounting(func(u *brokenUnmounter) {
				u.tearDown = func(context.Context, volume.TearDownOptions) error { return os.RemoveAll(filepath.Dir(u.Path())) }
			})),
			fails: "volume/VolumesComeAndGoBesideEachOther", says: "many volumes at once",
		},
		{
			name: "a goroutine is left",
			config: broken(brokenMounting(func(*brokenMounter) {
				go func() { select {} }()
			})),
			fails: "volume/NoGoroutineIsLeft", says: "brokenOtherwise", after: "MountersComeWithoutIO",
		},
	}
}
