console.log("The walk is not written yet.");
