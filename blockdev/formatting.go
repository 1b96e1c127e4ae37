// SPDX-License-Identifier: Apache-2.0

package blockdev

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/volumekit/volumekit/internal/devicemount"
	"github.com/volumekit/volumekit/internal/record"
)

// formattingRecord is where it is recorded that a file system is being made for the PersistentVolume.
func (p *Plugin) formattingRecord(name string) devicemount.FormattingRecord {
	return devicemount.FormattingRecord{Path: filepath.Join(p.host.PluginDir(Name), "formatting", name+".json"), Root: p.host.Root}
}

// toBeMounted is the device, which for a file is a loop device, as one that is to be mounted.
func (p *Plugin) toBeMounted(s source, found place, device string) devicemount.Device {
	d := devicemount.Device{Path: device, Name: found.path, Identity: identityOf(found), FSType: s.fsType, Field: "local.fsType", ReadOnly: s.readOnly,
		Formatting: p.formattingRecord(s.name)}
	if record := recordOfImage(found); record != "" {
		d.NeverFormat = fmt.Sprintf("it is not what was provisioned there with a file system (record %s): restore the file", record)
	}
	return d
}

// recordOfImage returns the path of what is recorded of the image that was provisioned where the file is, empty if none was.
func recordOfImage(found place) string {
	name, isImage := strings.CutSuffix(filepath.Base(found.path), imageSuffix)
	if found.kind != file || !isImage {
		return ""
	}
	for base := filepath.Dir(found.path); ; base = filepath.Dir(base) {
		if path := (image{base: base, name: name}).recordPath(); record.Exists(path) {
			return path
		}
		if base == filepath.Dir(base) {
			return ""
		}
	}
}
